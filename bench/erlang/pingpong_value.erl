%% Pingpong with contents: the same work as bench/pingpong_value.lua, message for message. The table is a
%% map with a list, made while the program runs (a literal would travel without being copied); the string
%% is a binary (of 1 KB, so it is counted, not copied, as any OTP program would have it).
%% Timed by ping, from its first throw to its last catch.
-module(pingpong_value).
-export([run/1]).

run(#{round_trips := RoundTrips, bytes := Bytes}) ->
    Main = self(),
    {Value, Weight} = value(Bytes),
    Pong = spawn_link(fun() -> receive {partner, Ping} -> pong(Ping, 0) end end),
    Ping = spawn_link(fun() -> ping_start(Pong, Main) end),
    Pong ! {partner, Ping},

    Ping ! {serve, Value, RoundTrips},
    {Seen, Nanoseconds} = receive {done, Ours, Time} -> {Ours, Time} end,

    Pong ! {seen, Main},
    All = receive {seen, Theirs} -> Seen + Theirs end,
    All = 2 * RoundTrips * Weight,
    Pong ! stop,
    {All, 2 * RoundTrips, Nanoseconds}.

value(0) ->
    {#{id => 1, name => <<"x">>, pos => lists:seq(1, 3)}, 3};
value(Bytes) ->
    {binary:copy(<<"x">>, Bytes), Bytes}.

seen(#{pos := [_, _, Z]}) -> Z;
seen(Value) -> byte_size(Value).

pong(Ping, Seen) ->
    receive
        {seen, Asker} ->
            Asker ! {seen, Seen},
            pong(Ping, Seen);
        stop ->
            ok;
        Value ->
            Ping ! Value,
            pong(Ping, Seen + seen(Value))
    end.

ping_start(Pong, Main) ->
    receive
        {serve, Value, RoundTrips} ->
            Started = erlang:monotonic_time(nanosecond),
            Pong ! Value,
            ping(Pong, Main, Started, RoundTrips, 0)
    end.

ping(Pong, Main, Started, Left, Seen) ->
    receive
        Value when Left > 1 ->
            Pong ! Value,
            ping(Pong, Main, Started, Left - 1, Seen + seen(Value));
        Value ->
            Main ! {done, Seen + seen(Value), erlang:monotonic_time(nanosecond) - Started}
    end.
