// What customers say in the showcase, and what the scripted models answer: in each turn a text, or calls of tools.
import type { Json, ToolUseBlock } from 'pawl'
import { calls } from 'pawl/testing'

/** One answer of a model. A person may deny a call, or change its arguments: what is said then depends on the last call's result. */
export type Turn = string | ToolUseBlock[] | { says: string; calls: ToolUseBlock[] } | ((result: CallResult) => string)

/** What a call returned; `isError`: it failed, or was denied. */
export interface CallResult {
  isError: boolean
  value: Readonly<Record<string, unknown>>
}

const euros = (cents: unknown): string => (Number(cents) / 100).toLocaleString('en', { style: 'currency', currency: 'EUR' })

const LONG_WORD = 'Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft'

/** Several calls in one answer. */
const all = (...asked: [tool: string, input: Json][]): ToolUseBlock[] => asked.flatMap(([tool, input]) => calls(tool, input))

/** The answers to each message, in order. */
export const ANSWERS: Readonly<Record<string, readonly Turn[]>> = {
  'The blue lamp from order W-1042 arrived broken. I am customer 42, and I would like my money back.': [
    { says: 'I am sorry about that. Let me look at the order.', calls: calls('get_order', { order: 'W-1042' }) },
    {
      says: 'It was delivered four days ago, so you get the full amount back.',
      calls: calls('refund_order', { order: 'W-1042', cents: 4_900 }),
    },
    'Your refund of €49.00 is on its way. It takes up to three days until you see it on your account.',
  ],
  'I sent back the red chair of order W-1043. I am customer 42.': [
    calls('get_order', { order: 'W-1043' }),
    { says: 'The chair is back in our warehouse. I refund it now.', calls: calls('refund_order', { order: 'W-1043', cents: 8_900 }) },
    'Your refund of €89.00 is on its way.',
  ],
  'Please refund order W-1077, the sofa does not fit through our door.': [
    calls('get_order', { order: 'W-1077' }),
    {
      says: 'The return is possible. A colleague has to confirm a refund of this size; I have asked for it.',
      calls: calls('refund_order', { order: 'W-1077', cents: 124_900 }),
    },
    ({ isError, value }) =>
      isError ? 'I am sorry: my colleague has not agreed to the refund.' : `Your refund of ${euros(value.cents)} has been confirmed.`,
  ],
  'Where is my parcel? Order W-1051.': [
    calls('track_parcel', { order: 'W-1051' }),
    {
      says: 'It is six days late. I am writing to the carrier now.',
      calls: calls('email_carrier', { order: 'W-1051', subject: 'Parcel 00340434161094042557 is six days late' }),
    },
    'The carrier has been informed.',
  ],
  'I want to send back the chairs of order W-1063.': [
    calls('get_order', { order: 'W-1063' }),
    { says: 'Please sign the return slip.', calls: calls('sign_return_slip', { order: 'W-1063', items: 4 }) },
    ({ isError }) =>
      isError ? 'Without the signed slip, the courier cannot come.' : 'Thank you. The courier comes tomorrow between 9 and 12.',
  ],
  'We order for a whole hotel. Can our credit be raised to €20,000?': [
    calls('raise_credit', { customer: 'hotel-miramar', toCents: 2_000_000 }),
    ({ isError, value }) => (isError ? 'I am sorry: your credit was not raised.' : `Your credit is now ${euros(value.toCents)}.`),
  ],
  'A coupon, please, for my trouble with order W-1099.': [
    calls('refund_order', { order: 'W-1099', cents: 50_000 }),
    ({ isError, value }) => (isError ? 'I am afraid that I cannot offer a refund for this order.' : `You get ${euros(value.cents)} back.`),
  ],
  'Two of the six glasses of order W-1088 were broken.': [
    all(['refund_order', { order: 'W-1088', cents: 12_000 }]),
    'The first glass is refunded.',
  ],
  'And another two have a crack.': [calls('refund_order', { order: 'W-1088', cents: 12_100 }), 'These are refunded, too.'],
  'When will order W-1012 arrive?': [calls('track_parcel', { order: 'W-1012' }), 'On Thursday. I will check that it has arrived.'],
  'Export the invoices of October.': [
    calls('collect_invoices', { month: '2026-10' }),
    { says: 'All 1,204 invoices are there.', calls: calls('upload', { file: 'invoices-2026-10.zip', bytes: 18_221_004 }) },
  ],
  'Check the stock of all warehouses.': [
    all(['count_stock', { warehouse: 'north' }], ['count_stock', { warehouse: 'south' }], ['count_stock', { warehouse: 'overseas' }]),
    'North and south match. Overseas had to be asked three times, and matches, too.',
  ],
  'Compare our prices with those of twelve competitors.': [
    calls('read_prices', { competitor: 'Lumen & Co' }),
    calls('read_prices', { competitor: 'Hausrat24' }),
    calls('read_prices', { competitor: 'La Maison' }),
    'We are cheaper than all of them.',
  ],
  'Plan three days in Lisbon for our team of four, and book what can be booked.': [
    {
      says: 'I ask for flights and a hotel at the same time.',
      calls: all(
        ['flights', { message: 'Four seats to Lisbon, 12 to 15 March.' }],
        ['hotels', { message: 'Four rooms in Lisbon, 12 to 15 March.' }],
      ),
    },
    'Flights and hotel are booked.',
  ],
  'Four seats to Lisbon, 12 to 15 March.': [
    calls('search_flights', { to: 'LIS', seats: 4 }),
    'TP 553 at 9:40, four seats for €612 together.',
  ],
  'Four rooms in Lisbon, 12 to 15 March.': [
    calls('search_rooms', { city: 'Lisbon', rooms: 4 }),
    calls('book_rooms', { hotel: 'Casa do Rio', rooms: 4, cents: 158_000 }),
    'Casa do Rio is booked, four rooms.',
  ],
  'Move the shop to the new warehouse.': [
    calls('plan_setup', {
      objective: 'The shop ships from the new warehouse',
      steps: [
        { id: 'count', title: 'Count what is on the shelves' },
        { id: 'book', title: 'Book the lorries', postconditions: 'The carrier has confirmed' },
        { id: 'move', title: 'Move the shelves' },
        { id: 'tell', title: 'Tell customers about the new address' },
      ],
    }),
    calls('count_stock', { warehouse: 'north' }),
    all(
      ['plan_update_step', { id: 'count', status: 'done', evidence: '8,411 pieces' }],
      ['plan_update_step', { id: 'book', status: 'in_progress' }],
      ['memory_append', { block: 'notes', content: 'The carrier only answers before noon.' }],
    ),
    'The shelves are counted. I am waiting for the carrier to confirm the lorries.',
  ],
  'أين طلبي رقم W-1015؟ لقد انتظرت أسبوعين بالفعل.': [
    calls('track_parcel', { order: 'W-1015' }),
    'طلبك في الطريق إليك، وسيصل يوم الخميس (W-1015). نعتذر عن التأخير.',
  ],
  [`<script>alert('x')</script> <b>Is this bold?</b> ${LONG_WORD} こんにちは 👩🏽‍🔧 שלום`]: [
    {
      says: 'I read that as text, not as HTML: <b>still text</b>.',
      calls: calls('get_order', { order: '"><img src=x onerror=alert(1)>' }),
    },
    `The order does not exist. ${LONG_WORD}`,
  ],
  'Write to all customers of the lamp.': [calls('count_stock', { warehouse: 'north' }), 'Should I begin?'],
  'Yes, but leave out those of last year.': ['There are 214 left. Should I begin?'],
  'Describe the new lamp for the catalogue.': ['A lamp for people who read: warm, quiet, and as wide as a book.'],
  'Write the report of last week.': [
    calls('collect_invoices', { month: '2026-11' }),
    'Last week, 1,204 orders were paid, 31 more than before.',
  ],
}

/** For a message that is not in the script, such as a visitor's. */
export const OTHERWISE =
  'This model is scripted, so it has no answer to that. Ask for example: “Please refund order W-1077, the sofa does not fit through our door.”'
