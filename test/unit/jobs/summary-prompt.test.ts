// What a summariser receives of a conversation.
import { describe, expect, it } from 'vitest'
import { summaryInstruction, summaryRequest } from '../../../src/jobs/model-call/summary-prompt.ts'
import type { Message } from '../../../src/session/content.ts'

const MESSAGES: Message[] = [
  { role: 'user', content: 'Where is A7?' },
  {
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: 'private', signature: 's' },
      { type: 'text', text: 'I look.' },
      { type: 'tool_use', id: 't_1_1_0', name: 'find', input: { id: 'A7' } },
    ],
  },
  {
    role: 'user',
    content: [
      { type: 'tool_result', tool_use_id: 't_1_1_0', content: 'x'.repeat(5_000) },
      { type: 'image', source: { type: 'url', url: 'https://example.org/a.png' } },
    ],
  },
]

describe('the request for a summary', () => {
  it('the request for a summary has what was said, the calls and their results, as text, and no thinking', () => {
    const text = summaryRequest(MESSAGES, undefined, 100_000)
    expect(text).toContain('user: Where is A7?')
    expect(text).toContain('assistant: I look.\n[call t_1_1_0 of find: {"id":"A7"}]')
    expect(text).toContain('[result of t_1_1_0, find:\nxxx')
    expect(text).toContain('[image]')
    expect(text).not.toContain('private')
    expect(text).not.toContain('earlier_summary')
  })

  it('the request for a summary has the earlier summary, and says how long the new one may be', () => {
    expect(summaryRequest(MESSAGES, 'He is called Bo.', 100_000)).toMatch(/^<earlier_summary>\nHe is called Bo\.\n<\/earlier_summary>/)
    expect(summaryInstruction(400)).toContain('at most 400 tokens')
  })

  it('the request for a summary shortens the longest texts of a part that is too long', () => {
    const text = summaryRequest(MESSAGES, undefined, 2_000)
    expect(text.length).toBeLessThan(2_200)
    expect(text).toContain('Where is A7?')
    expect(text).toContain('bytes left out')
    expect(summaryRequest(MESSAGES, undefined, 100).length).toBeLessThan(300)
  })
})
