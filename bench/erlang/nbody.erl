%% A compute kernel in processes: the same work as bench/nbody.lua, with additions and multiplications in the same
%% order.
%% Timed from the first message to the last system's energy.
-module(nbody).
-export([run/1]).

-define(DAYS, 365.24).
-define(SOLAR_MASS, 39.47841760435743).

run(#{actors := Count, messages := Messages, steps := Steps}) ->
    Systems = [spawn_link(fun() -> system(solar_system(), 0.001 * I) end) || I <- lists:seq(1, Count)],
    Started = erlang:monotonic_time(nanosecond),
    [System ! {advance, Steps} || _ <- lists:seq(1, Messages), System <- Systems],
    [System ! {report, self()} || System <- Systems],
    Answers = [receive {done, System, Energy, Time} -> {Energy, Time} end || System <- Systems],
    [System ! stop || System <- Systems],
    Ended = lists:max([Time || {_, Time} <- Answers]),
    Result = lists:sum([floor(Energy * 1.0e9 + 0.5) || {Energy, _} <- Answers]),
    {Result, Count * Messages * Steps, Ended - Started}.

system(Bodies, Dt) ->
    receive
        {advance, Steps} ->
            system(advance(Bodies, Dt, Steps), Dt);
        {report, Asker} ->
            Asker ! {done, self(), energy(Bodies, 0.0), erlang:monotonic_time(nanosecond)},
            system(Bodies, Dt);
        stop ->
            ok
    end.

advance(Bodies, _Dt, 0) ->
    Bodies;
advance(Bodies, Dt, Steps) ->
    advance(advance(Bodies, Dt), Dt, Steps - 1).

advance([], _Dt) ->
    [];
advance([{X, Y, Z, VX, VY, VZ, Mass} | Others], Dt) ->
    {Bodies, VX1, VY1, VZ1} = attract(Others, X, Y, Z, VX, VY, VZ, Mass, Dt, []),
    [{X + Dt * VX1, Y + Dt * VY1, Z + Dt * VZ1, VX1, VY1, VZ1, Mass} | advance(Bodies, Dt)].

%% What a body and those after it do to each other.
attract([], _X, _Y, _Z, VX, VY, VZ, _Mass, _Dt, Done) ->
    {lists:reverse(Done), VX, VY, VZ};
attract([{X2, Y2, Z2, VX2, VY2, VZ2, Mass2} | Others], X, Y, Z, VX, VY, VZ, Mass, Dt, Done) ->
    DX = X - X2,
    DY = Y - Y2,
    DZ = Z - Z2,
    Squared = DX * DX + DY * DY + DZ * DZ,
    Magnitude = Dt / (Squared * math:sqrt(Squared)),
    Ours = Mass2 * Magnitude,
    Theirs = Mass * Magnitude,
    attract(Others, X, Y, Z, VX - DX * Ours, VY - DY * Ours, VZ - DZ * Ours, Mass, Dt,
            [{X2, Y2, Z2, VX2 + DX * Theirs, VY2 + DY * Theirs, VZ2 + DZ * Theirs, Mass2} | Done]).

energy([], Sum) ->
    Sum;
energy([{X, Y, Z, VX, VY, VZ, Mass} | Others], Sum) ->
    Kinetic = Sum + 0.5 * Mass * (VX * VX + VY * VY + VZ * VZ),
    energy(Others, lists:foldl(
        fun({X2, Y2, Z2, _, _, _, Mass2}, Energy) ->
            DX = X - X2,
            DY = Y - Y2,
            DZ = Z - Z2,
            Energy - Mass * Mass2 / math:sqrt(DX * DX + DY * DY + DZ * DZ)
        end, Kinetic, Others)).

solar_system() ->
    [body(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
     body(4.84143144246472090, -1.16032004402742839, -0.103622044471123109,
          0.00166007664274403694, 0.00769901118419740425, -0.0000690460016972063023, 0.000954791938424326609),
     body(8.34336671824457987, 4.12479856412430479, -0.403523417114321381,
          -0.00276742510726411043, 0.00499852801234917238, 0.0000230417297573763929, 0.000285885980666130812),
     body(12.8943695621391310, -15.1111514016986312, -0.223307578892655734,
          0.00296460137564761618, 0.00237847173959480950, -0.0000296589568540237556, 0.0000436624404335156298),
     body(15.3796971148509165, -25.9193146099879641, 0.179258772950371181,
          0.00268067772490389322, 0.00162824170038242295, -0.0000951592254519715870, 0.0000515138902046611451)].

body(X, Y, Z, VX, VY, VZ, Mass) ->
    {X, Y, Z, VX * ?DAYS, VY * ?DAYS, VZ * ?DAYS, Mass * ?SOLAR_MASS}.
