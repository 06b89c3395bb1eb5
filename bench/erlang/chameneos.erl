%% Chameneos: the same work as bench/chameneos.lua, message for message.
%% Timed by the mall, from before the creatures are told to begin to the last one's word of how often it has met.
-module(chameneos).
-export([run/1]).

run(#{creatures := Count, meetings := Meetings}) ->
    Main = self(),
    Mall = spawn_link(fun() -> mall_start(Main, Meetings) end),
    Creatures = [spawn_link(fun() -> creature_start(Mall, I rem 3) end) || I <- lists:seq(1, Count)],
    Mall ! {open, Creatures},
    {Met, Nanoseconds} = receive {done, Sum, Time} -> {Sum, Time} end,
    Met = 2 * Meetings,
    {Met, Meetings, Nanoseconds}.

mall_start(Main, Meetings) ->
    receive
        {open, Creatures} ->
            Started = erlang:monotonic_time(nanosecond),
            [Creature ! start || Creature <- Creatures],
            mall(Meetings, none),
            Sum = leaving(length(Creatures), 0),
            Main ! {done, Sum, erlang:monotonic_time(nanosecond) - Started}
    end.

mall(0, none) ->
    ok;
mall(Left, none) ->
    receive
        {meet, _Colour, Creature} -> mall(Left, Creature)
    end;
mall(Left, Waiting) ->
    receive
        {meet, _Colour, _Creature} = Meet ->
            Waiting ! Meet,
            mall(Left - 1, none)
    end.

leaving(0, Sum) ->
    Sum;
leaving(Left, Sum) ->
    receive
        {meet, _Colour, Creature} ->
            Creature ! closed,
            leaving(Left, Sum);
        {met, Count} ->
            leaving(Left - 1, Sum + Count)
    end.

creature_start(Mall, Colour) ->
    receive
        start ->
            Mall ! {meet, Colour, self()},
            creature(Mall, Colour, 0)
    end.

creature(Mall, Colour, Met) ->
    receive
        {meet, Other, Creature} ->
            New = blend(Colour, Other),
            Creature ! {change, New},
            Mall ! {meet, New, self()},
            creature(Mall, New, Met + 1);
        {change, New} ->
            Mall ! {meet, New, self()},
            creature(Mall, New, Met + 1);
        closed ->
            Mall ! {met, Met}
    end.

blend(Colour, Colour) -> Colour;
blend(One, Other) -> 3 - One - Other.
