%% Runs one benchmark inside Erlang, once to warm up and then RUNS times.
%%
%%     erl -noshell -run bench main -extra PROGRAM RUNS PARAMETER=NUMBER...
%%
%% The counterpart of bench/run.lua: it takes the same arguments and prints the same line for each
%% run, program, nanoseconds an operation, operations, result. Module PROGRAM exports run/1, which takes
%% a map of the parameters and returns {Result, Ops, Nanoseconds}, or with a fourth element, a list of
%% further figures, {Name, Nanoseconds}; or fails if the work was not done to the last message.
-module(bench).
-export([main/0]).

main() ->
    %% In a process of its own: the one that runs main/0 belongs to the start of the system.
    {_, Monitor} = spawn_monitor(fun run/0),
    receive {'DOWN', Monitor, process, _, Reason} -> halt(case Reason of normal -> 0; _ -> 1 end) end.

run() ->
    [Name, Runs | Pairs] = init:get_plain_arguments(),
    Module = list_to_atom(Name),
    Parameters = maps:from_list([parameter(Pair) || Pair <- Pairs]),
    try
        Module:run(Parameters),
        [report(Name, Module:run(Parameters)) || _ <- lists:seq(1, list_to_integer(Runs))]
    catch
        Class:Reason:Stack ->
            io:format(standard_error, "~s: ~p: ~p~n~p~n", [Name, Class, Reason, Stack]),
            exit(failed)
    end.

parameter(Pair) ->
    [Key, Value] = string:split(Pair, "="),
    {list_to_atom(Key), list_to_integer(Value)}.

report(Name, {Result, Ops, Nanoseconds}) ->
    report(Name, {Result, Ops, Nanoseconds, []});
report(Name, {Result, Ops, Nanoseconds, More}) ->
    io:format("~s ~.3f ~b ~b", [Name, Nanoseconds / Ops, Ops, Result]),
    [io:format(" ~s=~b", [Label, Value]) || {Label, Value} <- More],
    io:format("~n").
