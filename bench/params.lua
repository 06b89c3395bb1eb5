--- What each benchmark does, in which order, and how much of it: the one table for every side.
-- The parameters are passed to Pierrot and to its peers alike, as "name=number" on their command
-- lines. A benchmark NAME is bench/NAME.lua here and bench/erlang/NAME.erl in Erlang.
--
-- Sizes are such that the faster side still runs for about a tenth of a second.

return {
  {
    name = "pingpong",
    about = "two actors send a number to and fro",
    op = "message",
    parameters = { round_trips = 2000000 },
  },
  {
    name = "ring",
    about = "a token goes round a ring of actors",
    op = "message",
    parameters = { actors = 100, hops = 4000000 },
  },
  {
    name = "count",
    about = "a producer sends increments to a counter, then asks it for the total",
    op = "message",
    parameters = { messages = 1000000, rounds = 5 },
  },
}
