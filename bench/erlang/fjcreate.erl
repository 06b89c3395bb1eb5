%% Fork-join create: the same work as bench/fjcreate.lua, message for message.
%% Timed from the first birth to the last process's word to the latch.
-module(fjcreate).
-export([run/1]).

run(#{actors := Actors, rounds := Rounds}) ->
    Main = self(),
    Latch = spawn_link(fun() -> latch(Main, Actors, Actors, 0) end),
    {Sum, Nanoseconds} = rounds(1, Rounds, Latch, Actors, 0, 0),
    Latch ! stop,
    {Sum, Actors * Rounds, Nanoseconds}.

rounds(Round, Rounds, _Latch, _Actors, Sum, Nanoseconds) when Round > Rounds ->
    {Sum, Nanoseconds};
rounds(Round, Rounds, Latch, Actors, _Sum, Nanoseconds) ->
    Started = erlang:monotonic_time(nanosecond),
    create(1, Actors, Latch),
    Wanted = Round * Actors * (Actors + 1) div 2,
    Ended = receive {done, Wanted, Time} -> Time end,
    rounds(Round + 1, Rounds, Latch, Actors, Wanted, Nanoseconds + Ended - Started).

create(I, Actors, _Latch) when I > Actors ->
    ok;
create(I, Actors, Latch) ->
    spawn(fun() -> worker(Latch) end) ! I,
    create(I + 1, Actors, Latch).

worker(Latch) ->
    receive N -> Latch ! N end.

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
