%% Counting: the same work as bench/count.lua, message for message.
%% Timed by the producer, from its first increment to the answer that holds the last total.
-module(count).
-export([run/1]).

run(#{messages := Messages, rounds := Rounds}) ->
    Main = self(),
    Counter = spawn_link(fun() -> counter(0) end),
    spawn_link(fun() -> Main ! {produced, produce(Counter, Messages, Rounds)} end),
    {Total, Nanoseconds} = receive {produced, Produced} -> Produced end,
    Counter ! stop,
    {Total, Messages * Rounds, Nanoseconds}.

produce(Counter, Messages, Rounds) ->
    Started = erlang:monotonic_time(nanosecond),
    Total = rounds(Counter, 1, Messages, 1, Rounds, 0),
    {Total, erlang:monotonic_time(nanosecond) - Started}.

rounds(_Counter, _By, _Messages, Round, Rounds, Total) when Round > Rounds ->
    Total;
rounds(Counter, By, Messages, Round, Rounds, _Total) ->
    increments(Counter, By, Messages),
    Counter ! {total, self()},
    Wanted = Round * By * Messages,
    Wanted = receive {total, Count} -> Count end,
    rounds(Counter, By, Messages, Round + 1, Rounds, Wanted).

increments(_Counter, _By, 0) ->
    ok;
increments(Counter, By, Left) ->
    Counter ! {increment, By},
    increments(Counter, By, Left - 1).

counter(Total) ->
    receive
        {increment, By} ->
            counter(Total + By);
        {total, Asker} ->
            Asker ! {total, Total},
            counter(Total);
        stop ->
            ok
    end.
