%% Pingpong: the same work as bench/pingpong.lua, message for message.
%% Timed by ping, from its first throw to its last catch. The result is pong's count of catches.
-module(pingpong).
-export([run/1]).

run(#{round_trips := RoundTrips}) ->
    Main = self(),
    Pong = spawn_link(fun() -> receive {partner, Ping} -> pong(Ping, 0) end end),
    Ping = spawn_link(fun() -> ping_start(Pong, Main) end),
    Pong ! {partner, Ping},

    Ping ! {serve, RoundTrips},
    Nanoseconds = receive {done, Time} -> Time end,

    Pong ! {received, Main},
    RoundTrips = receive {received, Received} -> Received end,
    Pong ! stop,
    {RoundTrips, 2 * RoundTrips, Nanoseconds}.

pong(Ping, Received) ->
    receive
        N when is_integer(N) ->
            Ping ! N,
            pong(Ping, Received + 1);
        {received, Asker} ->
            Asker ! {received, Received},
            pong(Ping, Received);
        stop ->
            ok
    end.

ping_start(Pong, Main) ->
    receive
        {serve, RoundTrips} ->
            Started = erlang:monotonic_time(nanosecond),
            Pong ! RoundTrips,
            ping(Pong, Main, Started)
    end.

ping(Pong, Main, Started) ->
    receive
        N when N > 1 ->
            Pong ! N - 1,
            ping(Pong, Main, Started);
        _ ->
            Main ! {done, erlang:monotonic_time(nanosecond) - Started}
    end.
