// Content that a provider would refuse if it were sent as it is: what users write, what models answer beside their calls, and what a tool
// returns. It follows from a number, so that a repeated request gets the same answer.
import type { ImageBlock, UserBlock } from '../../src/session/content.ts'
import { imageBlock, imageBytes } from '../support/images.ts'
import type { WireAnswerSpec } from '../support/provider-wires.ts'

/** The tool that returns content of each kind. */
export const ATTACHMENT = 'attachment'

/** Marks content that the strict provider refuses for an undocumented reason. */
export const REFUSED_MARK = 'REFUSED BY A FILTER'

const TEXTS = ['', ' \n', 'half \ud83d', '\ude80 half', '\u0000', 'a\u2028b', 'x'.repeat(3_000), 'ordinary'] as const
const text = (of: string): UserBlock => ({ type: 'text', text: of })
const base64 = (mediaType: string, data: string): ImageBlock => ({
  type: 'image',
  source: { type: 'base64', media_type: mediaType as 'image/png', data },
})
const pngData = (): string => imageBytes('image/png').toString('base64')

const CONTENTS: readonly UserBlock[][] = [
  [],
  [text('')],
  [text(' \n'), text('\ud83d')],
  [imageBlock('image/png'), text('fine')],
  [imageBlock('image/gif')],
  [base64('image/jpeg', pngData()), text('a PNG that is called a JPEG')],
  [imageBlock('image/png', { width: 8_001 })],
  [imageBlock('image/png', { width: 2_500 }), imageBlock('image/webp')],
  [base64('image/png', ''), text('no bytes')],
  [base64('image/png', Buffer.from('<html>404</html>').toString('base64'))],
  [base64('image/png', `data:image/png;base64,${pngData()}`)],
  [base64('image/png', `${pngData().slice(0, 40)}A`)],
  [imageBlock('image/png', { size: 4_200_000 })],
  [{ type: 'image', source: { type: 'url', url: 'http://127.0.0.1:9/expired.png' } }],
  [text(`${REFUSED_MARK}: a text`), text('and one beside it')],
  [text(REFUSED_MARK), imageBlock('image/png')],
]

/** What the tool returns for this number. */
export const contentOf = (number: number): UserBlock[] => structuredClone(CONTENTS[number % CONTENTS.length] ?? [])

/** Blocks that a user sends beside the request. `send` refuses images that no model can see, so they are none of those. */
export function besideRequest(number: number): UserBlock[] {
  const more = [[], [imageBlock('image/png')], [text('\ud83d half of a pair')], [imageBlock('image/webp'), text('a\u0000b')]]
  return structuredClone(more[number % more.length] ?? [])
}

type Call = NonNullable<WireAnswerSpec['calls']>[number]

const pieces = (json: string): string[] => json.match(/.{1,40}/gs) ?? []

export const wireCall = (id: string, name: string, input: unknown): Call => ({ id, name, json: pieces(JSON.stringify(input)) })

/** What a model says beside its ground-truth call. `brokenArguments`: on the wire, arguments are text, which may be no JSON. */
export function besideCall(number: number, brokenArguments: boolean): Pick<WireAnswerSpec, 'thinking' | 'text'> & { calls: Call[] } {
  const said = TEXTS[number % TEXTS.length] ?? ''
  const attach = (id: string) => wireCall(id, ATTACHMENT, { number })
  const calls: Call[][] = [
    [attach('call_a')],
    [attach('same'), wireCall('same', ATTACHMENT, { number: number + 1 })],
    [wireCall('', 'no such tool', { a: 'x\ud83d' }), attach('b'.repeat(90))],
    [wireCall('a b\ud83d', '\ud83d', {}), attach('call_b')],
    [wireCall('call_c', ATTACHMENT, [1, 2]), wireCall('call_d', ATTACHMENT, { number: 'seven' })],
    brokenArguments ? [{ id: 'call_e', name: ATTACHMENT, json: ['{"number": '] }] : [attach('call_e')],
    [],
    [attach('call_f')],
  ]
  return {
    ...(number % 3 === 0 && { thinking: { text: said, signature: number % 2 === 0 ? '' : 'c2ln' } }),
    text: number % 5 === 4 ? [] : [said.slice(0, 1), said.slice(1)],
    calls: calls[Math.floor(number / 2) % calls.length] ?? [],
  }
}
