%% Dining philosophers: the same work as bench/philosophers.lua, message for message.
%% Timed from before the philosophers are told to begin to the last one's word, by way of the arbitrator.
-module(philosophers).
-export([run/1]).

run(#{philosophers := Count, meals := Meals}) ->
    Main = self(),
    Arbitrator = spawn_link(fun() -> arbitrator_start(Main) end),
    Philosophers = [spawn_link(fun() -> philosopher_start(Id, Arbitrator, Meals) end)
                    || Id <- lists:seq(1, Count)],
    Arbitrator ! {open, list_to_tuple(Philosophers)},

    Started = erlang:monotonic_time(nanosecond),
    [Philosopher ! start || Philosopher <- Philosophers],
    Ended = receive {done, Time} -> Time end,

    Eaten = lists:sum([eaten(Philosopher) || Philosopher <- Philosophers]),
    Eaten = Count * Meals,
    [Process ! stop || Process <- Philosophers],
    {Eaten, Eaten, Ended - Started}.

eaten(Philosopher) ->
    Philosopher ! {eaten, self()},
    receive {eaten, Philosopher, Count} -> Count end.

philosopher_start(Id, Arbitrator, Meals) ->
    receive
        start ->
            Arbitrator ! {hungry, Id},
            philosopher(Id, Arbitrator, Meals, 0)
    end.

philosopher(Id, Arbitrator, Left, Eaten) ->
    receive
        eat ->
            Arbitrator ! {done, Id},
            case Left of
                1 -> Arbitrator ! leave;
                _ -> Arbitrator ! {hungry, Id}
            end,
            philosopher(Id, Arbitrator, Left - 1, Eaten + 1);
        {eaten, Asker} ->
            Asker ! {eaten, self(), Eaten},
            philosopher(Id, Arbitrator, Left, Eaten);
        stop ->
            ok
    end.

arbitrator_start(Main) ->
    receive
        {open, Philosophers} ->
            arbitrator(Philosophers, #{}, #{}, tuple_size(Philosophers)),
            Main ! {done, erlang:monotonic_time(nanosecond)}
    end.

%% Taken: the forks that are in use. Waiting: the hungry philosophers. Both are maps used as sets.
arbitrator(_Philosophers, _Taken, _Waiting, 0) ->
    ok;
arbitrator(Philosophers, Taken, Waiting, Left) ->
    Count = tuple_size(Philosophers),
    receive
        {hungry, Id} ->
            {NewTaken, NewWaiting} = seat(Id, Philosophers, Taken, Waiting),
            arbitrator(Philosophers, NewTaken, NewWaiting, Left);
        {done, Id} ->
            Before = (Id - 2 + Count) rem Count + 1,
            After = Id rem Count + 1,
            Freed = maps:remove(Id, maps:remove(After, Taken)),
            {Taken1, Waiting1} = seat_waiting(Before, Philosophers, Freed, Waiting),
            {Taken2, Waiting2} = seat_waiting(After, Philosophers, Taken1, Waiting1),
            arbitrator(Philosophers, Taken2, Waiting2, Left);
        leave ->
            arbitrator(Philosophers, Taken, Waiting, Left - 1)
    end.

seat_waiting(Id, Philosophers, Taken, Waiting) ->
    case Waiting of
        #{Id := _} -> seat(Id, Philosophers, Taken, Waiting);
        #{} -> {Taken, Waiting}
    end.

%% Gives the philosopher both forks if they lie there, or lets it wait.
seat(Id, Philosophers, Taken, Waiting) ->
    Other = Id rem tuple_size(Philosophers) + 1,
    case Taken of
        #{Id := _} ->
            {Taken, Waiting#{Id => true}};
        #{Other := _} ->
            {Taken, Waiting#{Id => true}};
        #{} ->
            element(Id, Philosophers) ! eat,
            {Taken#{Id => true, Other => true}, maps:remove(Id, Waiting)}
    end.
