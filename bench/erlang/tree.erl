%% A tree of actors: the same work as bench/tree.lua, message for message.
%% Timed from the root's birth to its sum.
-module(tree).
-export([run/1]).

run(#{leaves := Leaves, children := Children}) ->
    Started = erlang:monotonic_time(nanosecond),
    Main = self(),
    spawn(fun() -> node(Main, 0, Leaves, Children) end),
    Sum = receive Result -> Result end,
    Nanoseconds = erlang:monotonic_time(nanosecond) - Started,
    Sum = Leaves * (Leaves - 1) div 2,
    {Sum, count(Leaves, Children), Nanoseconds}.

count(Leaves, _Children) when Leaves =:= 1 -> 1;
count(Leaves, Children) -> Leaves + count(Leaves div Children, Children).

node(Parent, First, 1, _Children) ->
    Parent ! First;
node(Parent, First, Leaves, Children) ->
    Self = self(),
    Each = Leaves div Children,
    [spawn(fun() -> node(Self, First + I * Each, Each, Children) end) || I <- lists:seq(0, Children - 1)],
    Parent ! sum(Children, 0).

sum(0, Sum) ->
    Sum;
sum(Left, Sum) ->
    receive N -> sum(Left - 1, Sum + N) end.
