// Plays the sessions of the showcase, one after another, so that each deployment looks the same.
import type { Pawl, RunHandle, SessionHandle } from 'pawl/client'

/** How long a run may take, kills included. */
const SETTLED_MS = 60_000

export interface Scenes {
  pawl: Pawl
  /** Comes before each id: '' unless the deployment has other sessions. */
  prefix: string
  /** Called before each scene. */
  onScene(title: string): void
}

/** The calls for which a run waits. */
async function waitingCalls(run: RunHandle) {
  const settled = await run.settled({ timeout: SETTLED_MS })
  if (settled.status !== 'waiting') throw new Error(`The run should wait for a decision, but it is ${settled.status}.`)
  return settled.pending
}

/** Plays all of them. Afterwards some sessions wait for a person, some have failed, and some are done. */
export async function playScenes({ pawl, prefix, onScene }: Scenes): Promise<void> {
  const open = (id: string, agent: string, tags: string[] = []): SessionHandle => pawl.session(`${prefix}${id}`, { agent, tags })
  const say = async (session: SessionHandle, text: string): Promise<RunHandle> => {
    const run = await session.send(text)
    await run.settled({ timeout: SETTLED_MS })
    return run
  }
  const approve = async (run: RunHandle, session: SessionHandle, remember?: true): Promise<void> => {
    const [call] = await waitingCalls(run)
    const digest = call?.digest ?? ''
    await session.approve(call?.callId ?? '', {
      digest,
      by: 'ann',
      note: 'checked with the warehouse',
      ...(remember && { remember: { for: 'session', matching: { '/cents': { max: 50_000 } } } as const }),
    })
    await run.settled({ timeout: SETTLED_MS })
  }

  onScene('stock is counted, with a warehouse that does not answer at first')
  await say(open('stock-count', 'logistics', ['nightly']), 'Check the stock of all warehouses.')

  onScene('a move is planned; the plan and notes are kept')
  await say(open('new-warehouse', 'logistics', ['project']), 'Move the shop to the new warehouse.')

  onScene('a mailing is rolled back by a person, and paused')
  const mailing = open('mailing-lamp', 'logistics', ['marketing'])
  await say(mailing, 'Write to all customers of the lamp.')
  await say(mailing, 'Yes, but leave out those of last year.')
  await mailing.rollback({ run: 2, by: 'ann', reason: 'last year’s customers are meant to be included' })
  await mailing.pause({ by: 'ann', reason: 'the text is with the lawyers' })

  onScene('prices are compared until the budget is spent')
  await say(open('prices', 'research', ['weekly']), 'Compare our prices with those of twelve competitors.')

  onScene('an export fails: its model refuses the file')
  await say(open('export-october', 'accounting', ['monthly']), 'Export the invoices of October.')

  onScene('a customer writes in Arabic, while a process is killed')
  await say(open('customer-15', 'support', ['customer:15', 'lang:ar']), 'أين طلبي رقم W-1015؟ لقد انتظرت أسبوعين بالفعل.')

  onScene('a customer sends HTML')
  const html = `<script>alert('x')</script> <b>Is this bold?</b> Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft こんにちは 👩🏽‍🔧 שלום`
  await say(open('customer-66', 'support', ['customer:66']), html)

  onScene('two refunds: a person approves one, and the rule that she gives approves the other')
  const glasses = open('customer-88', 'support', ['customer:88'])
  await approve(await say(glasses, 'Two of the six glasses of order W-1088 were broken.'), glasses, true)
  await say(glasses, 'And another two have a crack.')

  onScene('a refund is denied')
  const denied = open('customer-99', 'support', ['customer:99'])
  const refused = await say(denied, 'A coupon, please, for my trouble with order W-1099.')
  const [deniable] = await waitingCalls(refused)
  await denied.deny(deniable?.callId ?? '', { digest: deniable?.digest ?? '', by: 'bob', reason: 'the order was refunded in May' })
  await refused.settled({ timeout: SETTLED_MS })

  onScene('a reminder is scheduled')
  const reminded = open('customer-12', 'support', ['customer:12'])
  await say(reminded, 'When will order W-1012 arrive?')
  await reminded.send('Ask whether order W-1012 has arrived.', { messageId: 'reminder', delay: '3d', by: 'ann' })

  onScene('a refund is paid once, although its process is killed while it is being paid')
  const lamp = open('customer-42', 'support', ['customer:42'])
  await say(lamp, 'The blue lamp from order W-1042 arrived broken. I am customer 42, and I would like my money back.')
  await lamp.fork({ id: `${prefix}customer-42-what-if`, run: 1, tags: ['experiment'], by: 'ann' })

  onScene('another refund of the same customer may have been paid, and the shop cannot tell')
  await say(open('customer-42-chair', 'support', ['customer:42']), 'I sent back the red chair of order W-1043. I am customer 42.')

  onScene('an email may have been sent: its process was killed, and nothing can check')
  await say(open('customer-51', 'support', ['customer:51']), 'Where is my parcel? Order W-1051.')

  onScene('a customer has to sign; a process is killed before')
  await say(open('customer-63', 'support', ['customer:63']), 'I want to send back the chairs of order W-1063.')

  onScene('a credit needs the finance team')
  await say(
    open('hotel-miramar', 'support', ['customer:miramar', 'vip']),
    'We order for a whole hotel. Can our credit be raised to €20,000?',
  )

  onScene('an agent asks two others, one of which needs an approval')
  await open('lisbon', 'travel', ['team']).send('Plan three days in Lisbon for our team of four, and book what can be booked.')
  await untilPending(pawl, `${prefix}lisbon/`)

  onScene('a large refund waits for a person')
  await say(open('customer-77', 'support', ['customer:77']), 'Please refund order W-1077, the sofa does not fit through our door.')
}

/** Resolves once a call of a session below the prefix waits. */
async function untilPending(pawl: Pawl, idPrefix: string): Promise<void> {
  for (const giveUpAt = Date.now() + SETTLED_MS; Date.now() < giveUpAt; await new Promise((resolve) => setTimeout(resolve, 100)))
    for await (const _ of pawl.pending.list({ idPrefix })) return
  throw new Error(`No session below ${idPrefix} waits for a decision.`)
}
