%% Fan-in: the same work as bench/fanin.lua, message for message.
%% Timed from before the producers are told to begin to the consumer's last message.
-module(fanin).
-export([run/1]).

run(#{producers := Count, messages := Messages, rounds := Rounds}) ->
    Main = self(),
    Consumer = spawn_link(fun() -> consumer(Main, Count * Messages, Count * Messages, 0) end),
    Producers = [spawn_link(fun producer/0) || _ <- lists:seq(1, Count)],
    Started = erlang:monotonic_time(nanosecond),
    {Sum, Ended} = rounds(1, Rounds, Producers, Consumer, Messages,
                          Count * Messages * (Messages + 1) div 2, none),
    [Process ! stop || Process <- [Consumer | Producers]],
    {Sum, Count * Messages * Rounds, Ended - Started}.

rounds(Round, Rounds, _Producers, _Consumer, _Messages, _RoundSum, Done) when Round > Rounds ->
    Done;
rounds(Round, Rounds, Producers, Consumer, Messages, RoundSum, _Done) ->
    [Producer ! {produce, Consumer, Messages} || Producer <- Producers],
    Wanted = Round * RoundSum,
    Ended = receive {done, Wanted, Time} -> Time end,
    rounds(Round + 1, Rounds, Producers, Consumer, Messages, RoundSum, {Wanted, Ended}).

producer() ->
    receive
        {produce, Consumer, Messages} ->
            produce(Consumer, 1, Messages),
            producer();
        stop ->
            ok
    end.

produce(_Consumer, N, Messages) when N > Messages ->
    ok;
produce(Consumer, N, Messages) ->
    Consumer ! N,
    produce(Consumer, N + 1, Messages).

consumer(Main, Messages, Left, Sum) ->
    receive
        N when is_integer(N), Left > 1 ->
            consumer(Main, Messages, Left - 1, Sum + N);
        N when is_integer(N) ->
            Main ! {done, Sum + N, erlang:monotonic_time(nanosecond)},
            consumer(Main, Messages, Messages, Sum + N);
        stop ->
            ok
    end.
