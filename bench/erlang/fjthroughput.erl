%% Fork-join throughput: the same work as bench/fjthroughput.lua, message for message.
%% Timed from the first message to the last process's word that it has all of its messages.
-module(fjthroughput).
-export([run/1]).

run(#{actors := Actors, messages := Messages, rounds := Rounds}) ->
    Main = self(),
    Latch = spawn_link(fun() -> latch(Main, Actors, Actors, 0) end),
    Workers = [spawn_link(fun() -> worker(Latch, Messages, Messages, 0) end)
               || _ <- lists:seq(1, Actors)],
    Started = erlang:monotonic_time(nanosecond),
    {Sum, Ended} = rounds(1, Rounds, Workers, Messages, Actors * Messages * (Messages + 1) div 2, none),
    [Process ! stop || Process <- [Latch | Workers]],
    {Sum, Actors * Messages * Rounds, Ended - Started}.

rounds(Round, Rounds, _Workers, _Messages, _RoundSum, Done) when Round > Rounds ->
    Done;
rounds(Round, Rounds, Workers, Messages, RoundSum, _Done) ->
    send(1, Messages, Workers),
    Wanted = Round * RoundSum,
    Ended = receive {done, Wanted, Time} -> Time end,
    rounds(Round + 1, Rounds, Workers, Messages, RoundSum, {Wanted, Ended}).

send(N, Messages, _Workers) when N > Messages ->
    ok;
send(N, Messages, Workers) ->
    send_all(Workers, N),
    send(N + 1, Messages, Workers).

send_all([], _N) ->
    ok;
send_all([Worker | Workers], N) ->
    Worker ! N,
    send_all(Workers, N).

worker(Latch, Messages, Left, Sum) ->
    receive
        N when is_integer(N), Left > 1 ->
            worker(Latch, Messages, Left - 1, Sum + N);
        N when is_integer(N) ->
            Latch ! Sum + N,
            worker(Latch, Messages, Messages, 0);
        stop ->
            ok
    end.

latch(Main, Actors, Left, Sum) ->
    receive
        N when is_integer(N), Left > 1 ->
            latch(Main, Actors, Left - 1, Sum + N);
        N when is_integer(N) ->
            Main ! {done, Sum + N, erlang:monotonic_time(nanosecond)},
            latch(Main, Actors, Actors, Sum + N);
        stop ->
            ok
    end.
