// A chat in a page: `useChat` with pawl's transport. It may be reloaded at any moment.
import { useChat } from '@ai-sdk/react'
import type { UIMessage } from 'ai'
import { PawlChatTransport } from 'pawl/ui'
import { StrictMode, useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'

const query = new URLSearchParams(location.search)
// With version 6 of the AI SDK: `?show=steps`.
const show = query.get('show') === 'steps' ? 'steps' : 'pieces'
const transport = new PawlChatTransport({ agent: query.get('agent') ?? 'support', show })

function Conversation({ id, loaded }: { id: string; loaded: UIMessage[] }) {
  const [text, setText] = useState('')
  const { messages, setMessages, sendMessage, stop, regenerate, resumeStream, status, error, addToolApprovalResponse } = useChat({
    id,
    messages: loaded,
    transport,
    resume: true,
  })
  // What is said and decided in other pages appears here, too.
  useEffect(() => transport.follow(id, { setMessages, resumeStream }), [id, setMessages, resumeStream])
  const isBusy = status === 'streaming' || status === 'submitted'
  const waits = messages.some(({ parts }) => parts.some((part) => 'toolCallId' in part && part.state === 'approval-requested'))

  /** Sends each decision at once, because another page may make the next one. */
  async function decide(approval: string, approved: boolean): Promise<void> {
    await addToolApprovalResponse({ id: approval, approved })
    await sendMessage()
  }

  return (
    <main data-status={status}>
      {messages.map((message) => (
        <article key={message.id} id={message.id} data-role={message.role}>
          {message.parts.map((part, n) => {
            if (part.type === 'text') return <p key={n}>{part.text}</p>
            if (!('toolCallId' in part)) return null
            const name = part.type.replace(/^tool-/, '')
            return (
              <div key={n} className="call">
                {name}: {part.state}
                {part.state === 'approval-requested' &&
                  [true, false].map((approved) => (
                    <button type="button" key={`${approved}`} onClick={() => void decide(part.approval.id, approved)}>
                      {approved ? 'Approve' : 'Deny'}
                    </button>
                  ))}
              </div>
            )
          })}
        </article>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void sendMessage({ text })
          setText('')
        }}
      >
        <input value={text} onChange={({ target }) => setText(target.value)} aria-label="Message" />
        <button type="submit">{isBusy ? 'Add' : 'Send'}</button>
        {/* A run that waits for a decision does not stream. */}
        <button type="button" disabled={!isBusy && !waits} onClick={() => void (isBusy ? stop() : transport.stop(id))}>
          Stop
        </button>
        <button type="button" disabled={isBusy} onClick={() => void regenerate()}>
          Again
        </button>
      </form>
    </main>
  )
}

const id = query.get('session') ?? crypto.randomUUID()
query.set('session', id)
history.replaceState(null, '', `?${query}`)
const loaded = await transport.messages(id)
createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <Conversation id={id} loaded={loaded} />
  </StrictMode>,
)
