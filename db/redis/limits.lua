-- Checks a tenant's three limits and takes from all of them, or from none.
--
-- KEYS  1 epoch, 2 requests, 3 tokens, 4 leases
-- ARGV  1 requests a minute, 2 tokens a minute, 3 concurrency (0: no such limit)
--       4 requests and 5 tokens that are asked for, 6 the lease's name
--       7 now in microseconds ("": this server's clock), 8 grace of leases in microseconds
--       9 "1" when the names of the live jobs follow, 10.. those names
-- Answer: refused ("", "requests", "tokens", "concurrency", "unknown"), wait, then level and wait until full
--         of requests and of tokens, and the free leases. Times in microseconds; a wait of -1 is never.
--
-- A bucket is one number: when it will be full (GCRA's arrival time). A bucket that is not there is full,
-- save in the minute after the epoch began: it was empty then. The epoch is lost with the buckets, so
-- whoever empties Redis gives nobody a burst.
local MINUTE = 60000000
local now = tonumber(ARGV[7])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local function whole(number) return string.format('%.0f', number) end

redis.call('SET', KEYS[1], whole(now), 'NX')
local epoch = tonumber(redis.call('GET', KEYS[1]))

local function look(key, limit, asked)
  if limit == 0 then return { wait = 0, level = 0, full = 0 } end
  local full = math.max(now, tonumber(redis.call('GET', key)) or epoch + MINUTE)
  local after = full + math.ceil(asked * MINUTE / limit)
  local wait = math.max(0, after - now - MINUTE)
  if asked > limit then wait = -1 end
  return { limit = limit, key = key, full = full, after = after, wait = wait }
end
local buckets = {
  requests = look(KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[4])),
  tokens = look(KEYS[3], tonumber(ARGV[2]), tonumber(ARGV[5])),
}

local concurrency, free, refused, wait = tonumber(ARGV[3]), 0, '', 0
if concurrency > 0 then
  if ARGV[9] == '1' then
    -- The live jobs are the truth; a lease younger than the grace may belong to a job about to be written.
    redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', whole(now - tonumber(ARGV[8])))
    redis.call('ZADD', KEYS[4], '+inf', '')
    for index = 10, #ARGV do redis.call('ZADD', KEYS[4], 'NX', whole(now), ARGV[index]) end
  end
  -- The nameless member stands for "counted since the last loss": without it nobody knows what is live.
  if not redis.call('ZSCORE', KEYS[4], '') then
    refused = 'unknown'
  else
    free = concurrency - redis.call('ZCARD', KEYS[4]) + 1
    if free < 1 then refused, wait = 'concurrency', 1000000 end
  end
end
for _, name in ipairs({ 'requests', 'tokens' }) do
  local bucket = buckets[name]
  if refused ~= 'unknown' and bucket.wait ~= 0 and wait >= 0 and (bucket.wait < 0 or bucket.wait > wait) then
    refused, wait = name, bucket.wait
  end
end

if refused == '' then
  for _, bucket in pairs(buckets) do
    if bucket.limit then
      bucket.full = bucket.after
      -- Kept a minute beyond the time when it is full: a clock that steps back finds it still.
      redis.call('SET', bucket.key, whole(bucket.full), 'PX', whole(math.ceil((bucket.full - now + MINUTE) / 1000)))
    end
  end
  if concurrency > 0 then
    redis.call('ZADD', KEYS[4], whole(now), ARGV[6])
    free = free - 1
  end
end

local answer = { refused, whole(wait) }
for _, name in ipairs({ 'requests', 'tokens' }) do
  local bucket = buckets[name]
  local missing = bucket.limit and bucket.full - now or 0
  answer[#answer + 1] = whole(math.max(0, math.floor((MINUTE - missing) * (bucket.limit or 0) / MINUTE)))
  answer[#answer + 1] = whole(missing)
end
answer[#answer + 1] = whole(math.max(0, free))
return answer
