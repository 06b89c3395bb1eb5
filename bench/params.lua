--- What each benchmark does, in which order, and how much of it: the one table for every side.
-- The parameters are passed to Pierrot and to its peers alike, as "name=number" on their command lines.
-- A benchmark's `program` (by default its name) is bench/PROGRAM.lua here, bench/erlang/PROGRAM.erl in Erlang,
-- bench/caf/PROGRAM.cpp in C++. `peers` names the sides to compare with, by default erlang and caf.
--
-- Sizes are Savina's or a small multiple, such that the faster side still runs for about a tenth of a second and
-- the slowest for about one.

return {
  {
    name = "pingpong",
    about = "two actors send a number to and fro",
    op = "message",
    parameters = { round_trips = 1000000 },
  },
  {
    name = "pingpong_table", program = "pingpong_value",
    about = 'two actors send {id=1, name="x", pos={1,2,3}} to and fro',
    op = "message",
    parameters = { round_trips = 300000, bytes = 0 },
  },
  {
    name = "pingpong_1k", program = "pingpong_value",
    about = "two actors send a string of 1 KB to and fro",
    op = "message",
    parameters = { round_trips = 300000, bytes = 1024 },
  },
  {
    name = "ring",
    about = "a token goes round a ring of actors",
    op = "message",
    parameters = { actors = 100, hops = 1500000 },
  },
  {
    name = "count",
    about = "a producer sends increments to a counter, then asks it for the total",
    op = "message",
    parameters = { messages = 1000000, rounds = 2 },
  },
  {
    name = "fjcreate",
    about = "actors are made, get a message each, and end",
    op = "actor",
    parameters = { actors = 40000, rounds = 2 },
  },
  {
    name = "fjthroughput",
    about = "one sender, many receivers in turn",
    op = "message",
    parameters = { actors = 60, messages = 10000, rounds = 3 },
  },
  {
    name = "big",
    about = "actors ping random others and wait for the pong",
    op = "ping and pong",
    parameters = { actors = 120, pings = 10000 },
  },
  {
    name = "ask",
    about = "a client asks a server and waits for each answer",
    op = "ask",
    parameters = { asks = 200000 },
  },
  {
    name = "fanin",
    about = "many producers send to one consumer",
    op = "message",
    parameters = { producers = 8, messages = 125000, rounds = 2 },
  },
  {
    name = "chameneos",
    about = "creatures meet in a mall, in pairs",
    op = "meeting",
    parameters = { creatures = 100, meetings = 200000 },
  },
  {
    name = "philosophers",
    about = "philosophers eat with forks from an arbitrator",
    op = "meal",
    parameters = { philosophers = 20, meals = 10000 },
  },
  {
    name = "bank",
    about = "accounts transfer money, each asking the other",
    op = "transfer",
    parameters = { accounts = 1000, transfers = 50000 },
  },
  {
    name = "tree",
    about = "a tree with a million leaves is grown and summed up",
    op = "actor",
    parameters = { leaves = 1000000, children = 10 },
  },
  {
    name = "nbody",
    about = "solar systems in actors compute their course",
    op = "step",
    parameters = { actors = 16, messages = 20, steps = 1000 },
  },
  {
    name = "latency",
    about = "one way of a message, under a paced load",
    op = "message",
    parameters = { actors = 100000, pacers = 2, rate = 200000, milliseconds = 1000 },
  },

  -- Of Pierrot alone.
  {
    name = "cross", program = "pairs", peers = {  },
    about = "every message crosses between two busy workers",
    op = "message",
    parameters = { pairs = 16, round_trips = 40000, across = 1 },
  },
  {
    name = "pairs", peers = { "one worker" },
    about = "independent pairs, on all workers and on one",
    op = "message",
    parameters = { pairs = 16, round_trips = 60000, across = 0 },
  },
  {
    name = "pairs_placed", program = "pairs", peers = { "one worker" },
    about = "the same, with the pairs on the workers in turn",
    op = "message",
    parameters = { pairs = 16, round_trips = 60000, across = 2 },
  },
  {
    name = "nbody_alone", program = "nbody", peers = { "one worker" },
    about = "solar systems, on all workers and on one",
    op = "step",
    parameters = { actors = 16, messages = 60, steps = 1000 },
  },
  {
    name = "wake", peers = { "futex" },
    about = "a message to a sleeping worker, and a bare futex",
    op = "message",
    parameters = { wakes = 500 },
  },
  {
    name = "cold", peers = {  },
    about = "the wait of an actor beside a greedy one",
    op = "probe",
    parameters = { backlog = 1000, probes = 500 },
  },
  {
    name = "live_10", program = "live", peers = {  },
    about = "10 living actors are told in turn",
    op = "message",
    parameters = { actors = 10, messages = 2000000 },
  },
  {
    name = "live_1000", program = "live", peers = {  },
    about = "1,000 living actors are told in turn",
    op = "message",
    parameters = { actors = 1000, messages = 2000000 },
  },
  {
    name = "live_100000", program = "live", peers = {  },
    about = "100,000 living actors are told in turn",
    op = "message",
    parameters = { actors = 100000, messages = 2000000 },
  },
  {
    name = "live_1000000", program = "live", peers = {  },
    about = "1,000,000 living actors are told in turn",
    op = "message",
    parameters = { actors = 1000000, messages = 2000000 },
  },
}
