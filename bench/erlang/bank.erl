%% Bank transfers: the same work as bench/bank.lua. Accounts are gen_servers: an order is a cast, and the account
%% calls the other one while it handles it. The random numbers are the same, so the same sums move.
%% Timed by the teller, from its first order to the last word.
-module(bank).
-behaviour(gen_server).
-export([run/1, init/1, handle_call/3, handle_cast/2]).

-define(TIME_LIMIT_MS, 120000).

run(#{accounts := Count, transfers := Transfers}) ->
    Main = self(),
    Accounts = [start_account() || _ <- lists:seq(1, Count)],
    spawn_link(fun() -> Main ! {done, teller(list_to_tuple(Accounts), Transfers)} end),
    Nanoseconds = receive {done, Time} -> Time end,

    Balances = [gen_server:call(Account, balance, ?TIME_LIMIT_MS) || Account <- Accounts],
    0 = lists:sum(Balances),
    [ok = gen_server:stop(Account) || Account <- Accounts],
    Result = lists:sum([I * Balance || {I, Balance} <- lists:zip(lists:seq(1, Count), Balances)]),
    {Result, Transfers, Nanoseconds}.

start_account() ->
    {ok, Account} = gen_server:start_link(?MODULE, [], []),
    Account.

teller(Accounts, Transfers) ->
    Started = erlang:monotonic_time(nanosecond),
    order(Accounts, Transfers, 12345),
    wait(Transfers),
    erlang:monotonic_time(nanosecond) - Started.

order(_Accounts, 0, _Random) ->
    ok;
order(Accounts, Left, Random) ->
    Count = tuple_size(Accounts),
    Random1 = next(Random),
    From = Random1 rem (Count div 10 * 8) + 1,
    Random2 = next(Random1),
    To = From + max(1, Random2 rem (Count - From + 1)),
    Random3 = next(Random2),
    gen_server:cast(element(From, Accounts), {transfer, Random3 rem 1000, element(To, Accounts), self()}),
    order(Accounts, Left - 1, Random3).

next(Random) ->
    (Random * 1309 + 13849) rem 65536.

wait(0) ->
    ok;
wait(Left) ->
    receive transferred -> wait(Left - 1) end.

init([]) ->
    {ok, 0}.

handle_cast({transfer, Amount, To, Teller}, Balance) ->
    ok = gen_server:call(To, {deposit, Amount}, ?TIME_LIMIT_MS),
    Teller ! transferred,
    {noreply, Balance - Amount}.

handle_call({deposit, Amount}, _From, Balance) ->
    {reply, ok, Balance + Amount};
handle_call(balance, _From, Balance) ->
    {reply, Balance, Balance}.
