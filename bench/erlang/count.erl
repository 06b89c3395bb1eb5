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
    Total = rounds(Counter, Messages, 1, Rounds, 0),
    {Total, erlang:monotonic_time(nanosecond) - Started}.

rounds(_Counter, _Messages, Round, Rounds, Total) when Round > Rounds ->
    Total;
rounds(Counter, Messages, Round, Rounds, _Total) ->
    increments(Counter, Messages),
    Counter ! {total, self()},
    Wanted = Round * Messages,
    Wanted = receive {total, Count} -> Count end,
    rounds(Counter, Messages, Round + 1, Rounds, Wanted).

increments(_Counter, 0) ->
    ok;
increments(Counter, Left) ->
    Counter ! increment,
    increments(Counter, Left - 1).

counter(Total) ->
    receive
        increment ->
            counter(Total + 1);
        {total, Asker} ->
            Asker ! {total, Total},
            counter(Total);
        stop ->
            ok
    end.
