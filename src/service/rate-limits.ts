// The rate limits of `pawl serve`: requests of each caller, and unknown credentials from each address.
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import { type Authorize, callerOf } from './access.ts'
import { ServiceError } from './errors.ts'

export interface RateLimits {
  /** The same `authorize` with the limits. A request counts once, however often its stream is checked again. */
  limited(authorize: Authorize): Authorize
  /** Whether the request's address has used up its unknown credentials. This never causes valid credentials to be refused. */
  isSuspect(request: Request): Promise<boolean>
}

const WINDOW_S = 60
/** Refused credentials per minute from one address. */
const MAX_REFUSALS = 60

/** The limits: `perMinute` for a known caller (0 for no limit). `addressOf` returns the address that a request came from. */
export function rateLimits(perMinute: number, addressOf: (request: Request) => string): RateLimits {
  const requests = new RateLimiterMemory({ points: Math.max(1, perMinute), duration: WINDOW_S })
  const refusals = new RateLimiterMemory({ points: MAX_REFUSALS, duration: WINDOW_S })
  const counted = new WeakSet<Request>()
  const sourceOf = (request: Request): string => networkOf(addressOf(request))
  return {
    limited: (authorize) => async (request) => {
      const access = await authorize(request)
      if (counted.has(request)) return access
      counted.add(request)
      if (!access) await take(refusals, sourceOf(request))
      else if (perMinute > 0) await take(requests, callerOf(access))
      return access
    },
    async isSuspect(request) {
      const used = await refusals.get(sourceOf(request))
      return used !== null && used.consumedPoints >= MAX_REFUSALS
    },
  }
}

/** The network that counts as one address: a client with one IPv6 address usually has the whole /64 network. */
function networkOf(address: string): string {
  if (!address.includes(':') || address.includes('.')) return address
  const [head = '', tail] = address.split('::')
  const groups = head.split(':')
  return tail === undefined ? groups.slice(0, 4).join(':') : [...groups, '0', '0', '0', '0'].slice(0, 4).join(':')
}

/** @throws ServiceError `rate_limited`. */
async function take(limiter: RateLimiterMemory, key: string): Promise<void> {
  try {
    await limiter.consume(key)
  } catch (refused) {
    if (!(refused instanceof RateLimiterRes)) throw refused
    const seconds = Math.max(1, Math.ceil(refused.msBeforeNext / 1_000))
    throw new ServiceError('rate_limited', 429, `Too many requests. The limit is ${limiter.points} a minute. Wait ${seconds} s.`, {
      headers: { 'retry-after': String(seconds) },
    })
  }
}
