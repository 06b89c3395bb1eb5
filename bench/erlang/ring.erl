%% Thread ring: the same work as bench/ring.lua, message for message.
%% Timed from before the token enters to its last delivery. The result is the sum of what the
%% processes counted.
-module(ring).
-export([run/1]).

run(#{actors := Actors, hops := Hops}) ->
    Main = self(),
    Members = [First | Others] = [spawn_link(fun() -> member_start(Main) end)
                                  || _ <- lists:seq(1, Actors)],
    [ask(Member, next, Next) || {Member, Next} <- lists:zip(Members, Others ++ [First])],

    Started = erlang:monotonic_time(nanosecond),
    First ! Hops,
    Ended = receive {done, Time} -> Time end,

    Hops = lists:sum([ask(Member, received, none) || Member <- Members]),
    [Member ! stop || Member <- Members],
    {Hops, Hops, Ended - Started}.

ask(Member, What, Argument) ->
    Member ! {What, self(), Argument},
    receive {reply, Member, Reply} -> Reply end.

member_start(Main) ->
    receive
        {next, Asker, Next} ->
            Asker ! {reply, self(), ok},
            member(Main, Next, 0)
    end.

member(Main, Next, Received) ->
    receive
        HopsLeft when is_integer(HopsLeft), HopsLeft > 1 ->
            Next ! HopsLeft - 1,
            member(Main, Next, Received + 1);
        1 ->
            Main ! {done, erlang:monotonic_time(nanosecond)},
            member(Main, Next, Received + 1);
        {received, Asker, none} ->
            Asker ! {reply, self(), Received},
            member(Main, Next, Received);
        stop ->
            ok
    end.
