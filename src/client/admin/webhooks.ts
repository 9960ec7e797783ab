// Creates and manages webhooks: addresses that get a signed request when a call waits, a run ends, a session is in error, or a budget is
// nearly spent.
import { randomBytes } from 'node:crypto'
import { checkOptions, flag, integer, options, text, where } from '../../options/check.ts'
import { InvalidOptionError } from '../../options/errors.ts'
import { defined } from '../../session/defined.ts'
import { NOTIFICATION_TYPES, type NotificationType } from '../../session/notifications.ts'
import { numberText } from '../../session/number-text.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import type { Store, StoredDelivery, StoredWebhook } from '../../store/index.ts'
import { canonicalJson } from '../../session/canonical.ts'
import { RequestRefusedError } from '../errors.ts'
import { consumerOf } from '../../store/webhooks.ts'
import { storeOr } from '../no-store.ts'
import type { QueriesOptions } from '../queries/queries-options.ts'
import { openStoreAlone } from './store-alone.ts'

/** Options of a new webhook. */
export interface WebhookOptions {
  /** Where requests are sent: an `http:` or `https:` address of at most 2,000 characters, without credentials. */
  url: string
  /** What to notify of. Default: everything. */
  types?: readonly NotificationType[]
  /** Only sessions with this agent. Default: all. */
  agent?: string
  /** Only sessions whose ids begin with this, such as those of one tenant. Default: all. */
  idPrefix?: string
  /**
   * Whether requests contain the event as it is stored, with the texts that users, models and tools have written. Default false: they name
   * the session, the call, the tool and the code of an error.
   */
  content?: boolean
  /** What requests are signed with: `whsec_` and 24 to 64 bytes in base64. Default: 32 random bytes. */
  secret?: string
  /** Who creates the webhook; recorded. Default: none. */
  by?: string
  /** An id for the webhook: a repeated request with it gets the webhook that exists. 1 to 50 of `[A-Za-z0-9_-]`. Default: a random one. */
  id?: string
}

/** A webhook, without its secret. */
export interface Webhook {
  /** What identifies it. */
  id: string
  /** Where requests are sent. */
  url: string
  /** What it is notified of. */
  types: NotificationType[]
  /** Only sessions with this agent; null for all. */
  agent: string | null
  /** Only sessions whose ids begin with this; null for all. */
  idPrefix: string | null
  /** Whether requests contain texts of users, models and tools. */
  content: boolean
  /** When it was created. */
  createdAt: Date
  /** Who created it. */
  createdBy: string | null
  /** Since when nothing is sent; null if it is active. */
  pausedAt: Date | null
  /** Who paused it. */
  pausedBy: string | null
  /** Notifications that its target has accepted. */
  delivered: number
  /** When it accepted the newest one. */
  lastDeliveredAt: Date | null
  /** Why the newest request failed; null if it was accepted. */
  lastError: string | null
  /** Notifications that wait to be sent, or to be sent again. */
  waiting: number
  /** Notifications that were given up: see `deliveries`. */
  givenUp: number
}

/** A new webhook. */
export interface NewWebhook extends Webhook {
  /** What its requests are signed with. It is not shown again. */
  secret: string
}

/** A notification that the target has not accepted. */
export interface WebhookDelivery {
  /** The webhook. */
  webhook: string
  /** The session. */
  sessionId: string
  /** The event in the session. */
  seq: number
  /** The session's agent. */
  agent: string
  /** What the target is notified of. */
  type: NotificationType
  /** When the event happened. */
  happenedAt: Date
  /** Requests that failed. */
  attempts: number
  /** When the next request is made, if it is not given up. */
  dueAt: Date
  /** Why the newest request failed. */
  lastError: string | null
  /** When it was given up, three days after it was queued; null if it still waits. */
  givenUpAt: Date | null
}

/** Options of a list of deliveries. */
export interface WebhookDeliveriesOptions {
  /** Only those of this webhook. Default: all. */
  webhook?: string
  /** Only those of webhooks for sessions whose ids begin with this. Default: all. */
  idPrefix?: string
  /** Only those that were given up, or only those that wait. Default: both. */
  givenUp?: boolean
  /** 1 to 1,000. Default 50. */
  limit?: number
}

/** The webhooks of a deployment, in its side store. Every method rejects with `StoreError` (`no_store`, `store_unavailable`, …). */
export interface Webhooks {
  /**
   * Creates a webhook. It is notified of what happens from then on.
   * @throws InvalidOptionError `invalid_option`; RequestRefusedError `request_id_reused`: another webhook has its `id`.
   */
  create(options: WebhookOptions): Promise<NewWebhook>
  /** All webhooks, or those for sessions whose ids begin with `idPrefix`, oldest first. @throws InvalidOptionError `invalid_option`. */
  list(options?: { idPrefix?: string }): Promise<Webhook[]>
  /** Stops sending; what happens meanwhile waits. @throws InvalidOptionError `invalid_option`. */
  pause(id: string, options?: { by?: string }): Promise<Webhook>
  /** Sends again, beginning with what waits. @throws InvalidOptionError `invalid_option`. */
  resume(id: string): Promise<Webhook>
  /** Removes a webhook with everything that it has not sent. @throws InvalidOptionError `invalid_option`. */
  remove(id: string): Promise<void>
  /** Notifications that were not accepted, in the order in which they were queued. @throws InvalidOptionError `invalid_option`. */
  deliveries(options?: WebhookDeliveriesOptions): Promise<WebhookDelivery[]>
  /** Sends those that were given up again, of one session or of all; returns their number. @throws InvalidOptionError `invalid_option`. */
  redeliver(id: string, options?: { session?: string }): Promise<number>
}

const MAX_URL = 2_000
const SECRET_BYTES = { min: 24, max: 64 }

const OPTIONS = options({
  url: where<string>(
    isTarget,
    `an address that begins with http or https, of at most ${numberText(MAX_URL)} characters, without credentials`,
  ),
  types: where<NotificationType[]>(
    (types) => Array.isArray(types) && types.length > 0 && types.every((type) => NOTIFICATION_TYPES.includes(type as NotificationType)),
    `a list of one or more of ${NOTIFICATION_TYPES.join(', ')}`,
  ).optional(),
  agent: text("an agent's name").optional(),
  idPrefix: text('the beginning of session ids').optional(),
  content: flag().optional(),
  secret: where<string>(isSecret, `whsec_ and ${SECRET_BYTES.min} to ${SECRET_BYTES.max} bytes in base64`).optional(),
  by: text().optional(),
  id: where<string>((id) => typeof id === 'string' && /^[A-Za-z0-9_-]{1,50}$/.test(id), '1 to 50 of [A-Za-z0-9_-]').optional(),
})
const WEBHOOK_ID = options({ id: text('the id of a webhook') })
const LISTING = options({ idPrefix: text('the beginning of session ids').optional() })
const PAUSING = options({ by: where<string>((by) => typeof by === 'string', 'text that says who pauses the webhook').optional() })
const REDELIVERING = options({ session: text("a session's id").optional() })
const DELIVERIES = options({
  webhook: text('the id of a webhook').optional(),
  idPrefix: text('the beginning of session ids').optional(),
  givenUp: flag().optional(),
  limit: integer(1, 1_000).optional(),
})

/** The webhooks in a store. Without a store, every method rejects with `no_store`. */
export function webhooksOf(store: Store | undefined): Webhooks {
  const webhooks = () => storeOr(store).webhooks
  const idOf = (id: string): string => checkOptions(WEBHOOK_ID, { id }).id
  return {
    async create(given) {
      const {
        url,
        types = NOTIFICATION_TYPES,
        agent = null,
        idPrefix = null,
        content: withContent = false,
        secret = `whsec_${randomBytes(32).toString('base64')}`,
        by = null,
        id = `wh_${randomBytes(6).toString('hex')}`,
      } = checkOptions(OPTIONS, given)
      // The place in the feed comes first: a webhook without one would begin wherever a worker finds it.
      await storeOr(store).leaseFeed({ name: consumerOf(id), holder: 'created' }, 0)
      const wanted = { url, types: [...new Set(types)], agent, idPrefix, withContent }
      const stored = await webhooks().put({ id, ...wanted, secret, createdBy: by })
      requireSame(stored, { ...wanted, secret: given.secret })
      return { ...webhookOf(stored), secret: stored.secret }
    },
    async list(given = {}) {
      const { idPrefix } = checkOptions(LISTING, given)
      return (await webhooks().list(idPrefix)).map(webhookOf)
    },
    async pause(given, more = {}) {
      const id = idOf(given)
      const { by } = checkOptions(PAUSING, more)
      return webhookOf((await webhooks().pause(id, true, by)) ?? none(id))
    },
    async resume(given) {
      const id = idOf(given)
      return webhookOf((await webhooks().pause(id, false, undefined)) ?? none(id))
    },
    async remove(given) {
      const id = idOf(given)
      if (!(await webhooks().remove(id))) none(id)
    },
    async deliveries(given = {}) {
      const { webhook, idPrefix, givenUp, limit = 50 } = checkOptions(DELIVERIES, given)
      const found = await webhooks().deliveries({ limit, ...defined({ webhookId: webhook, idPrefix, givenUp }) })
      return found.map(deliveryOf)
    },
    async redeliver(given, more = {}) {
      const id = idOf(given)
      const { session } = checkOptions(REDELIVERING, more)
      if ((await webhooks().list()).every((webhook) => webhook.id !== id)) none(id)
      return webhooks().redeliver(id, session)
    },
  }
}

/**
 * Opens a store for its webhooks alone, without Temporal.
 * @throws InvalidOptionError `invalid_option`; StoreError `no_store`, `invalid_store_options`, `invalid_postgres_url`.
 */
export function openWebhooks(given: QueriesOptions = {}): Webhooks & { close(): Promise<void> } {
  const store = openStoreAlone(given, 'webhooks')
  return { ...webhooksOf(store), close: () => store.close() }
}

function none(id: string): never {
  throw new InvalidOptionError(`No webhook has the id ${JSON.stringify(id)}. List the webhooks with \`${SUGGESTIONS.listWebhooks()}\`.`)
}

type WantedWebhook = Pick<StoredWebhook, 'url' | 'types' | 'agent' | 'idPrefix' | 'withContent'>

/** Refuses a request whose id belongs to another webhook. @throws RequestRefusedError `request_id_reused`. */
function requireSame(stored: StoredWebhook, { secret = stored.secret, ...wanted }: WantedWebhook & { secret: string | undefined }): void {
  const textOf = ({ url, types, agent, idPrefix, withContent }: WantedWebhook): string =>
    canonicalJson({ url, types: types.toSorted(), agent, idPrefix, withContent })
  if (secret === stored.secret && textOf(wanted) === textOf(stored)) return
  throw new RequestRefusedError(
    'request_id_reused',
    `The id ${JSON.stringify(stored.id)} belongs to another webhook, so this one was not created. Create it with an id of its own.`,
  )
}

function isTarget(url: unknown): boolean {
  // A URL may be read although it has control characters, which no row can hold.
  if (typeof url !== 'string' || url.length > MAX_URL || !URL.canParse(url) || /[\0-\x20\x7f]/.test(url)) return false
  const { protocol, username, password } = new URL(url)
  return ['http:', 'https:'].includes(protocol) && username === '' && password === ''
}

function isSecret(secret: unknown): boolean {
  const [, base64] = typeof secret === 'string' ? (/^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret) ?? []) : []
  const bytes = base64 === undefined ? 0 : Buffer.from(base64, 'base64').length
  return bytes >= SECRET_BYTES.min && bytes <= SECRET_BYTES.max
}

function webhookOf(stored: StoredWebhook): Webhook {
  const { secret: _, withContent: content, ...webhook } = stored
  return { ...webhook, content }
}

function deliveryOf(stored: StoredDelivery): WebhookDelivery {
  const { webhookId: webhook, sessionId, seq, agent, type, happenedAt, attempts, dueAt, lastError, givenUpAt } = stored
  return { webhook, sessionId, seq, agent, type, happenedAt, attempts, dueAt, lastError, givenUpAt }
}
