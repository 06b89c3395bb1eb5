%% One-way latency under a paced load: the same work as bench/latency.lua, message for message, to the same targets.
-module(latency).
-export([run/1]).

-define(TICK_MS, 1).

run(#{actors := Count, pacers := Pacers, rate := Rate, milliseconds := Milliseconds}) ->
    Main = self(),
    Targets = [spawn_link(fun() -> target([]) end) || _ <- lists:seq(1, Count)],
    Tuple = list_to_tuple(Targets),
    Started = erlang:monotonic_time(nanosecond),
    [spawn_link(fun() -> pace(Main, Tuple, Rate / Pacers, Milliseconds, I) end) || I <- lists:seq(1, Pacers)],
    Sent = lists:sum([receive {done, N} -> N end || _ <- lists:seq(1, Pacers)]),
    Overrun = erlang:monotonic_time(nanosecond) - Started - Milliseconds * 1000000,
    timer:sleep(100),

    All = lists:append([report(Target) || Target <- Targets]),
    Sent = length(All),
    [Target ! stop || Target <- Targets],
    {Sent, Sent, lists:sum(All), percentiles(All, Sent) ++ [{"overrun", Overrun}]}.

report(Target) ->
    Target ! {report, self()},
    receive {report, Target, Latencies} -> Latencies end.

percentiles(All, Count) ->
    Sorted = list_to_tuple(lists:sort(All)),
    [{Name, element(max(1, ceil(Share * Count)), Sorted)}
     || {Name, Share} <- [{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1.0}]].

target(Latencies) ->
    receive
        Sent when is_integer(Sent) ->
            target([erlang:monotonic_time(nanosecond) - Sent | Latencies]);
        {report, Asker} ->
            Asker ! {report, self(), Latencies},
            target(Latencies);
        stop ->
            ok
    end.

pace(Main, Targets, Rate, Milliseconds, Random) ->
    pace(Main, Targets, Rate, floor(Rate * Milliseconds / 1000), erlang:monotonic_time(nanosecond), 0, Random).

pace(Main, _Targets, _Rate, Total, _Started, Total, _Random) ->
    Main ! {done, Total};
pace(Main, Targets, Rate, Total, Started, Sent, Random) ->
    receive after ?TICK_MS -> ok end,
    Due = min(Total, floor((erlang:monotonic_time(nanosecond) - Started) * 1.0e-9 * Rate)),
    NewRandom = send(Targets, Due - Sent, Random),
    pace(Main, Targets, Rate, Total, Started, max(Sent, Due), NewRandom).

send(_Targets, Left, Random) when Left =< 0 ->
    Random;
send(Targets, Left, Random) ->
    Next = (Random * 1664525 + 1013904223) band 16#ffffffff,
    element(Next * tuple_size(Targets) bsr 32 + 1, Targets) ! erlang:monotonic_time(nanosecond),
    send(Targets, Left - 1, Next).
