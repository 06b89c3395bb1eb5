%% Runs one benchmark inside Erlang, once to warm up and then RUNS times.
%%
%%     erl -noshell -run bench main -extra PROGRAM RUNS PARAMETER=NUMBER...
%%
%% The counterpart of bench/run.lua: it takes the same arguments and prints the same line for each
%% run, program, nanoseconds an operation, operations, result. Module PROGRAM exports run/1, which takes
%% a map of the parameters and returns {Result, Ops, Nanoseconds}, or fails if the work was not
%% done to the last message.
-module(bench).
-export([main/0]).

main() ->
    [Name, Runs | Pairs] = init:get_plain_arguments(),
    try
        Module = list_to_atom(Name),
        Parameters = maps:from_list([parameter(Pair) || Pair <- Pairs]),
        Module:run(Parameters),
        [report(Name, Module:run(Parameters)) || _ <- lists:seq(1, list_to_integer(Runs))]
    of
        _ -> halt(0)
    catch
        Class:Reason:Stack ->
            io:format(standard_error, "~s: ~p: ~p~n~p~n", [Name, Class, Reason, Stack]),
            halt(1)
    end.

parameter(Pair) ->
    [Key, Value] = string:split(Pair, "="),
    {list_to_atom(Key), list_to_integer(Value)}.

report(Name, {Result, Ops, Nanoseconds}) ->
    io:format("~s ~.3f ~b ~b~n", [Name, Nanoseconds / Ops, Ops, Result]).
