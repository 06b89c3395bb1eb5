-- How the game plays. Change it while the server runs: it is read again, checked, and told to all. Seconds, tiles.
return {
  wanderer = { speed = 1.5, sight = 5, think = 0.2 },
  guard = { speed = 2.5, sight = 8, think = 0.1, damage = 2 },
  player = { speed = 6, health = 100, idle = 10 },
}
