// `pawl webhooks create|list|pause|resume|remove|deliveries|redeliver`: addresses that are notified of what happens in sessions.
import { Command } from 'commander'
import type { Webhook, WebhookDelivery, WebhookOptions, Webhooks } from '../../client/admin/webhooks.ts'
import { defined } from '../../session/defined.ts'
import type { NotificationType } from '../../session/notifications.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { aboutDeployment, type DeploymentOptions, onStoreAlone } from '../connecting.ts'
import { here } from '../here.ts'
import { byOption, jsonOption, limitOption, severalOf } from '../options.ts'
import { say } from '../queries.ts'
import { type Column, linesOfTable } from '../table.ts'

interface WebhooksOptions extends DeploymentOptions {
  json?: true
}

interface CreateOptions extends WebhooksOptions {
  type?: string[]
  agent?: string
  idPrefix?: string
  content?: true
  by: string
}

interface DeliveriesOptions extends WebhooksOptions {
  givenUp?: true
  limit: number
}

export function webhooksCommand(): Command {
  const webhooks = new Command('webhooks').description('notify an address of waiting calls, errors, finished runs and budgets')
  const commands = [
    createCommand(),
    listCommand(),
    pauseCommand(),
    resumeCommand(),
    removeCommand(),
    deliveriesCommand(),
    redeliverCommand(),
  ]
  for (const command of commands) webhooks.addCommand(command)
  return webhooks
}

function createCommand(): Command {
  return aboutDeployment(
    new Command('create')
      .description('create a webhook and print its secret, with which requests are signed; it is shown only once')
      .argument('<url>', 'where requests are sent')
      .option(
        '--type <types>',
        'what to notify of, separated by commas, such as call.waiting,session.error (default: everything)',
        severalOf,
      )
      .option('--agent <name>', 'only sessions with this agent')
      .option('--id-prefix <prefix>', 'only sessions whose ids begin with this, such as those of a tenant')
      .option('--content', 'send the events with the texts of users, models and tools (default: only ids, tools and codes)')
      .addOption(byOption()),
  )
    .addOption(jsonOption())
    .action(async (url: string, { type, agent, idPrefix, content, by, json, ...where }: CreateOptions) => {
      // Creating the webhook validates the types.
      const options: WebhookOptions = { url, by, ...defined({ types: type as NotificationType[] | undefined, agent, idPrefix, content }) }
      const made = await onWebhooks(where, (webhooks) => webhooks.create(options))
      if (json) return say(JSON.stringify({ event: 'webhook_created', ...made }))
      say(made.secret)
      process.stderr.write(`Webhook ${made.id} is signed with this secret. Store it now: it is not shown again.\n`)
    })
}

const COLUMNS: Column<Webhook>[] = [
  { name: 'id', of: ({ id }) => id, whole: true },
  { name: 'state', of: ({ pausedAt }) => (pausedAt ? 'paused' : 'active') },
  { name: 'delivered', of: ({ delivered }) => delivered, right: true },
  { name: 'waiting', of: ({ waiting }) => waiting, right: true },
  { name: 'given up', of: ({ givenUp }) => givenUp, right: true },
  { name: 'last', of: ({ lastDeliveredAt }) => lastDeliveredAt, optional: true },
  { name: 'error', of: ({ lastError }) => lastError },
  { name: 'url', of: ({ url }) => url },
]

function listCommand(): Command {
  return aboutDeployment(new Command('list').description('list the webhooks, without their secrets'))
    .addOption(jsonOption())
    .action(async ({ json, ...where }: WebhooksOptions) => {
      const all = await onWebhooks(where, (webhooks) => webhooks.list())
      const lines = all.length > 0 ? linesOfTable(COLUMNS, all) : [`no webhooks; create one with \`${here(SUGGESTIONS.createWebhook())}\``]
      for (const line of json ? all.map((webhook) => JSON.stringify(webhook)) : lines) say(line)
    })
}

const webhookCommand = (name: string, description: string): Command =>
  aboutDeployment(new Command(name).description(description).argument('<id>', 'as `pawl webhooks list` shows it')).addOption(jsonOption())

function pauseCommand(): Command {
  return webhookCommand('pause', 'send nothing until it is resumed; what happens meanwhile waits')
    .addOption(byOption())
    .action(async (id: string, { by, json, ...where }: WebhooksOptions & { by: string }) => {
      const webhook = await onWebhooks(where, (webhooks) => webhooks.pause(id, { by }))
      const text = `Webhook ${webhook.id} is paused. Resume it with \`${here(SUGGESTIONS.resumeWebhook(webhook.id))}\`.`
      say(json ? JSON.stringify({ event: 'webhook_paused', ...webhook }) : text)
    })
}

function resumeCommand(): Command {
  return webhookCommand('resume', 'send again, beginning with what waits').action(
    async (id: string, { json, ...where }: WebhooksOptions) => {
      const webhook = await onWebhooks(where, (webhooks) => webhooks.resume(id))
      say(json ? JSON.stringify({ event: 'webhook_resumed', ...webhook }) : `Webhook ${webhook.id} is active.`)
    },
  )
}

function removeCommand(): Command {
  return webhookCommand('remove', 'remove it with everything that it has not sent').action(
    async (id: string, { json, ...where }: WebhooksOptions) => {
      await onWebhooks(where, (webhooks) => webhooks.remove(id))
      say(json ? JSON.stringify({ event: 'webhook_removed', id }) : `Webhook ${id} is removed.`)
    },
  )
}

const DELIVERIES: Column<WebhookDelivery>[] = [
  { name: 'webhook', of: ({ webhook }) => webhook, whole: true },
  { name: 'session', of: ({ sessionId }) => sessionId, whole: true },
  { name: 'seq', of: ({ seq }) => seq, right: true },
  { name: 'type', of: ({ type }) => type },
  { name: 'attempts', of: ({ attempts }) => attempts, right: true },
  { name: 'given up', of: ({ givenUpAt }) => givenUpAt },
  { name: 'error', of: ({ lastError }) => lastError },
]

function deliveriesCommand(): Command {
  return aboutDeployment(
    new Command('deliveries')
      .description('list notifications that were not accepted, oldest first')
      .argument('[id]', 'only those of this webhook')
      .option('--given-up', 'only those that were given up')
      .addOption(limitOption('deliveries')),
  )
    .addOption(jsonOption())
    .action(async (id: string | undefined, { givenUp, limit, json, ...where }: DeliveriesOptions) => {
      const found = await onWebhooks(where, (webhooks) => webhooks.deliveries({ limit, ...defined({ webhook: id, givenUp }) }))
      if (json) return found.forEach((delivery) => say(JSON.stringify(delivery)))
      for (const line of found.length > 0 ? linesOfTable(DELIVERIES, found) : ['everything was accepted']) say(line)
      for (const webhook of new Set(found.flatMap((one) => (one.givenUpAt ? [one.webhook] : [])))) {
        say(`Send those that were given up again with \`${here(SUGGESTIONS.redeliver(webhook))}\`.`)
      }
    })
}

function redeliverCommand(): Command {
  return webhookCommand('redeliver', 'send notifications again that were given up')
    .option('--session <id>', 'only those of this session')
    .action(async (id: string, { session, json, ...where }: WebhooksOptions & { session?: string }) => {
      const count = await onWebhooks(where, (webhooks) => webhooks.redeliver(id, defined({ session })))
      say(
        json
          ? JSON.stringify({ event: 'redelivered', id, count })
          : `${count} ${count === 1 ? 'notification is' : 'notifications are'} sent again.`,
      )
    })
}

async function onWebhooks<T>(where: DeploymentOptions, work: (opened: Webhooks) => Promise<T>): Promise<T> {
  const { openWebhooks } = await import('../../client/admin/webhooks.ts')
  return onStoreAlone(where, openWebhooks, work)
}
