%% Ask: the same work as bench/ask.lua: gen_server:call to a gen_server, with its default limit of 5 s.
%% Timed by the client, from its first call to its last answer.
-module(ask).
-behaviour(gen_server).
-export([run/1, init/1, handle_call/3, handle_cast/2]).

run(#{asks := Asks}) ->
    Main = self(),
    {ok, Server} = gen_server:start_link(?MODULE, [], []),
    spawn_link(fun() -> Main ! {done, client(Server, Asks)} end),
    {Sum, Nanoseconds} = receive {done, Done} -> Done end,
    Sum = Asks * (Asks + 1),
    ok = gen_server:stop(Server),
    {Sum, Asks, Nanoseconds}.

client(Server, Asks) ->
    Started = erlang:monotonic_time(nanosecond),
    Sum = calls(Server, 1, Asks, 0),
    {Sum, erlang:monotonic_time(nanosecond) - Started}.

calls(_Server, I, Asks, Sum) when I > Asks ->
    Sum;
calls(Server, I, Asks, Sum) ->
    calls(Server, I + 1, Asks, Sum + gen_server:call(Server, {double, I})).

init([]) ->
    {ok, none}.

handle_call({double, N}, _From, State) ->
    {reply, 2 * N, State}.

handle_cast(_Message, State) ->
    {noreply, State}.
