// Fakes of the APIs that docs/recipes.md uses, as the world of a crash test: they enforce what is documented and count what they did.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { CrashWorld } from 'pawl/testing'

interface Request {
  method: string
  path: string
  query: URLSearchParams
  headers: IncomingMessage['headers']
  body: string
}

interface Answer {
  status?: number
  body: unknown
}

/** What one API does with a request that is authorised; undefined if it has no such path. */
type Api = (request: Request) => Answer | undefined

const PROVIDERS = ['STRIPE', 'RESEND', 'POSTMARK', 'TWILIO', 'GITHUB', 'LINEAR', 'GOOGLE'] as const
type Provider = (typeof PROVIDERS)[number]

const invalid = (message: string): Answer => ({ status: 400, body: { error: message } })

/** All providers, each at its own address, which is in the environment: `STRIPE_URL`, …. */
export function providers(): CrashWorld {
  let effects: { provider: Provider; about: string }[] = []
  let apis = fresh()
  const servers: Server[] = []

  function done(provider: Provider, about: string): number {
    return effects.push({ provider, about })
  }

  function fresh(): Record<Provider, Api> {
    return {
      STRIPE: stripe((about) => done('STRIPE', about)),
      RESEND: resend((about) => done('RESEND', about)),
      POSTMARK: postmark((about) => done('POSTMARK', about)),
      TWILIO: twilio((about) => done('TWILIO', about)),
      GITHUB: github((about) => done('GITHUB', about)),
      LINEAR: linear((about) => done('LINEAR', about)),
      GOOGLE: google((about) => done('GOOGLE', about)),
    }
  }

  async function answer(provider: Provider, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://fake')
    const { method = '', headers } = request
    const asked = { method, path: url.pathname, query: url.searchParams, headers, body: await text(request) }
    const isAuthorised = headers.authorization ?? headers['x-postmark-server-token']
    const { status = 200, body } = isAuthorised ? (apis[provider](asked) ?? { status: 404, body: {} }) : { status: 401, body: {} }
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

  return {
    async start() {
      const env: Record<string, string> = { TWILIO_ACCOUNT_SID: 'AC1', POSTMARK_TOKEN: 'token', LINEAR_KEY: 'key', LINEAR_TEAM: 'team' }
      for (const provider of PROVIDERS) {
        const server = createServer((request, response) => void answer(provider, request, response))
        await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
        env[`${provider}_URL`] = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
        servers.push(server)
      }
      return env
    },
    reset() {
      effects = []
      apis = fresh()
    },
    snapshot: () => effects.map(({ provider, about }) => `${provider}: ${about}`),
    effects: () => effects.map((effect) => ({ ...effect })),
    async stop() {
      for (const server of servers) {
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      }
    },
  }
}

/** Answers a repeated key with its first answer, and refuses one with other parameters. */
function keyed(refusal: Answer): (key: string, body: string, act: () => Answer) => Answer {
  const answers = new Map<string, { body: string; answer: Answer }>()
  return (key, body, act) => {
    const known = answers.get(key) ?? { body, answer: act() }
    answers.set(key, known)
    return known.body === body ? known.answer : refusal
  }
}

function stripe(done: (about: string) => number): Api {
  const once = keyed(invalid('idempotency_error'))
  const refunds: { id: string; amount: number; payment_intent: string; metadata: Record<string, string> }[] = []
  return ({ method, path, query, headers, body }) => {
    if (path !== '/v1/refunds') return undefined
    if (method === 'GET') {
      const all = refunds.filter((one) => one.payment_intent === query.get('payment_intent')).reverse()
      const from = all.findIndex(({ id }) => id === query.get('starting_after')) + 1
      return { body: { data: all.slice(from, from + Number(query.get('limit') ?? 10)), has_more: false } }
    }
    const form = new URLSearchParams(body)
    const [amount, payment = ''] = [Number(form.get('amount')), form.get('payment_intent') ?? undefined]
    if (!(amount > 0) || !payment) return invalid('parameter_missing')
    // The keys of longer calls have been pruned: only the metadata says that this refund was made.
    return once(String(headers['idempotency-key'] ?? refunds.length), body, () => {
      const refund = {
        id: `re_${refunds.length + 1}`,
        amount,
        payment_intent: payment,
        metadata: { call_key: form.get('metadata[call_key]') ?? '' },
      }
      refunds.push(refund)
      done(`${amount} of ${payment}`)
      return { body: refund }
    })
  }
}

function resend(done: (about: string) => number): Api {
  const once = keyed({ status: 409, body: { name: 'invalid_idempotent_request' } })
  return ({ method, path, headers, body }) => {
    if (method !== 'POST' || path !== '/emails') return undefined
    const key = headers['idempotency-key']
    if (typeof key === 'string' && (key.length < 1 || key.length > 256)) return invalid('invalid_idempotency_key')
    const { from, to, subject } = JSON.parse(body) as Record<string, string>
    if (!from || !to || !subject) return { status: 422, body: { name: 'missing_required_field' } }
    const send = (): Answer => ({ body: { id: `mail-${done(`${to}: ${subject}`)}` } })
    return typeof key === 'string' ? once(key, body, send) : send()
  }
}

function postmark(done: (about: string) => number): Api {
  const sent: { MessageID: string; To: string; Metadata: Record<string, string> }[] = []
  return ({ method, path, query, body }) => {
    if (method === 'GET' && path === '/messages/outbound') {
      if (!query.get('count') || !query.get('offset')) return { status: 422, body: { Message: 'count and offset are required' } }
      const wanted = [...query].flatMap(([name, value]) => (name.startsWith('metadata_') ? [[name.slice('metadata_'.length), value]] : []))
      const found = sent.filter(({ To, Metadata }) => {
        const isTo = (query.get('recipient') ?? To) === To
        return isTo && wanted.every(([name = '', value]) => Metadata[name] === value)
      })
      return { body: { TotalCount: found.length, Messages: found.slice(0, Number(query.get('count'))) } }
    }
    if (method !== 'POST' || path !== '/email') return undefined
    const { To = '', Subject, Metadata = {} } = JSON.parse(body) as { To?: string; Subject?: string; Metadata?: Record<string, string> }
    const isLong = Object.entries(Metadata).some(([name, value]) => name.length > 20 || value.length > 80)
    if (isLong) return { status: 422, body: { Message: 'Metadata names have at most 20 characters, values 80' } }
    const MessageID = `message-${done(`${To}: ${Subject}`)}`
    sent.push({ MessageID, To, Metadata })
    return { body: { MessageID, ErrorCode: 0, Message: 'OK' } }
  }
}

function twilio(done: (about: string) => number): Api {
  const sent: { sid: string; to: string; body: string; direction: string }[] = []
  return ({ method, path, query, body }) => {
    if (path !== '/2010-04-01/Accounts/AC1/Messages.json') return undefined
    if (method === 'GET') return { body: { messages: sent.filter(({ to }) => to === query.get('To')).reverse(), next_page_uri: null } }
    const form = new URLSearchParams(body)
    const [to, from, message] = [form.get('To'), form.get('From'), form.get('Body')]
    if (!to || !from || !message) return invalid('21602')
    // The reference at the end differs in each session.
    const one = { sid: `SM${done(`${to}: ${message.split('\n')[0]}`)}`, to, body: message, direction: 'outbound-api' }
    sent.push(one)
    return { status: 201, body: one }
  }
}

function github(done: (about: string) => number): Api {
  const issues: { number: number; html_url: string; body: string | null }[] = []
  return ({ method, path, query, body }) => {
    if (path !== '/repos/acme/shop/issues') return undefined
    if (method === 'GET') {
      const [page, size] = [Number(query.get('page') ?? 1), Number(query.get('per_page') ?? 30)]
      return { body: issues.toReversed().slice((page - 1) * size, page * size) }
    }
    const { title, body: content = null } = JSON.parse(body) as { title?: string; body?: string }
    if (!title) return { status: 422, body: { message: 'Validation Failed' } }
    const number = done(title)
    const issue = { number, html_url: `https://github.com/acme/shop/issues/${number}`, body: content }
    issues.push(issue)
    return { status: 201, body: issue }
  }
}

function linear(done: (about: string) => number): Api {
  const issues = new Map<string, { id: string; identifier: string; url: string }>()
  return ({ method, path, body }) => {
    if (method !== 'POST' || path !== '/graphql') return undefined
    const { query, variables } = JSON.parse(body) as {
      query: string
      variables: { id?: string; input?: { id: string; teamId: string; title: string } }
    }
    const { id = '', input } = variables
    if (!query.startsWith('mutation')) {
      const issue = issues.get(id)
      return { body: issue ? { data: { issue } } : { data: null, errors: [{ message: 'Entity not found: Issue' }] } }
    }
    if (!input || !/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(input.id) || !input.teamId)
      return { body: { data: null, errors: [{ message: 'Argument Validation Error' }] } }
    if (issues.has(input.id)) return { body: { data: null, errors: [{ message: 'Entity already exists' }] } }
    const identifier = `SUP-${done(input.title)}`
    const issue = { id: input.id, identifier, url: `https://linear.app/acme/issue/${identifier}` }
    issues.set(issue.id, issue)
    return { body: { data: { issueCreate: { issue } } } }
  }
}

function google(done: (about: string) => number): Api {
  const events = new Map<string, { id: string; htmlLink: string }>()
  const EVENTS = '/calendar/v3/calendars/primary/events'
  return ({ method, path, body }) => {
    if (method === 'GET') {
      const event = events.get(path.slice(EVENTS.length + 1))
      return event && { body: event }
    }
    if (path !== EVENTS) return undefined
    const { id = '', summary } = JSON.parse(body) as { id?: string; summary?: string }
    if (!/^[0-9a-v]{5,1024}$/.test(id)) return invalid('Invalid resource id value.')
    if (events.has(id)) return { status: 409, body: { error: { message: 'The requested identifier already exists.' } } }
    done(summary ?? '')
    const event = { id, htmlLink: `https://calendar.google.com/event?eid=${id}` }
    events.set(id, event)
    return { body: event }
  }
}
