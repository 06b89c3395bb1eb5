-- times(plain, sanitized): how often a test does what it hammers; times PIERROT_HAMMER, as the C tests.
return function(plain, sanitized)
  local n = os.getenv "PIERROT_SANITIZER" and sanitized or plain
  local hammer = tonumber(os.getenv "PIERROT_HAMMER" or 1) or 1
  return math.max(1, math.ceil(n * (hammer > 0 and hammer or 1)))
end
