%% Big: the same work as bench/big.lua, message for message, with the same random numbers.
%% Timed from before the processes are told to begin to the last one's word that it has its last pong.
-module(big).
-export([run/1]).

-record(member, {id, left, sink, neighbours, random, expected = none, received = 0}).

run(#{actors := Actors, pings := Pings}) ->
    Main = self(),
    Sink = spawn_link(fun() -> sink(Main, Actors) end),
    Members = [spawn_link(fun() -> member_start(Id, Pings, Sink) end)
               || Id <- lists:seq(1, Actors)],
    Neighbours = list_to_tuple(Members),
    [Member ! {neighbours, Neighbours} || Member <- Members],

    Started = erlang:monotonic_time(nanosecond),
    [Member ! {pong, none} || Member <- Members],
    Ended = receive {done, Time} -> Time end,

    Counts = [received(Member) || Member <- Members],
    Wanted = Actors * Pings,
    Wanted = lists:sum(Counts),
    [Member ! stop || Member <- Members],
    Result = lists:sum([Id * Count || {Id, Count} <- lists:zip(lists:seq(1, Actors), Counts)]),
    {Result, Actors * Pings, Ended - Started}.

received(Member) ->
    Member ! {received, self()},
    receive {received, Member, Count} -> Count end.

member_start(Id, Pings, Sink) ->
    receive
        {neighbours, Neighbours} ->
            member(#member{id = Id, left = Pings, sink = Sink, neighbours = Neighbours, random = Id})
    end.

member(#member{id = Id, left = Left, neighbours = Neighbours, expected = Expected} = Member) ->
    receive
        {ping, From} ->
            element(From, Neighbours) ! {pong, Id},
            member(Member#member{received = Member#member.received + 1});
        {pong, Expected} when Left =:= 0 ->
            Member#member.sink ! Id,
            member(Member);
        {pong, Expected} ->
            Random = (Member#member.random * 1309 + 13849) rem 65536,
            Target = Random rem tuple_size(Neighbours) + 1,
            element(Target, Neighbours) ! {ping, Id},
            member(Member#member{left = Left - 1, random = Random, expected = Target});
        {received, Asker} ->
            Asker ! {received, self(), Member#member.received},
            member(Member);
        stop ->
            ok
    end.

sink(Main, 0) ->
    Main ! {done, erlang:monotonic_time(nanosecond)};
sink(Main, Left) ->
    receive _Id -> sink(Main, Left - 1) end.
