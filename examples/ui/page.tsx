// A chat in a page: `useChat` with pawl's transport. It may be reloaded at any moment.
import { useChat } from '@ai-sdk/react'
import type { FileUIPart, UIMessage } from 'ai'
import { PawlChatTransport } from 'pawl/ui'
import { StrictMode, useEffect, useRef, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { Question, type Reply, type ToolQuestion } from './question.tsx'

type ChatMessage = UIMessage<unknown, { question: ToolQuestion }>

const query = new URLSearchParams(location.search)
// With version 6 of the AI SDK: `?show=steps`.
const show = query.get('show') === 'steps' ? 'steps' : 'pieces'
const transport = new PawlChatTransport({ agent: query.get('agent') ?? 'support', show })

/** Files of a page as `useChat` sends them: data URLs. */
async function filePartsOf(files: FileList): Promise<FileUIPart[]> {
  const read = (file: File): Promise<string> =>
    new Promise((resolve, reject) => {
      const reader = new FileReader()
      reader.onload = () => resolve(reader.result as string)
      reader.onerror = () => reject(reader.error ?? new Error(file.name))
      reader.readAsDataURL(file)
    })
  return Promise.all([...files].map(async (file) => ({ type: 'file', mediaType: file.type, filename: file.name, url: await read(file) })))
}

function FilePart({ part: { mediaType, filename, url } }: { part: FileUIPart }) {
  if (mediaType.startsWith('image/')) return <img src={url} alt={filename ?? 'An image'} />
  return (
    <a href={url} download={filename ?? 'file'}>
      {filename ?? mediaType}
    </a>
  )
}

/** Whether the call that asks still waits for the answer. */
function isOpen({ toolCallId, answered }: ToolQuestion, parts: ChatMessage['parts']): boolean {
  return !answered && parts.some((part) => 'toolCallId' in part && part.toolCallId === toolCallId && !part.state.startsWith('output'))
}

/** Answers a question. The page follows the session, so it shows what happens then. */
async function reply(session: string, { callId, digest }: ToolQuestion, result: Reply): Promise<void> {
  const response = await fetch(`/api/pawl/v1/sessions/${encodeURIComponent(session)}/calls/${encodeURIComponent(callId)}/answer`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ result, digest }),
  })
  if (response.ok) return
  const { userMessage = response.statusText } = await response.json().catch(() => ({}))
  throw new Error(userMessage)
}

function Conversation({ id, loaded }: { id: string; loaded: ChatMessage[] }) {
  const [text, setText] = useState('')
  const input = useRef<HTMLInputElement>(null)
  const { messages, setMessages, sendMessage, stop, regenerate, resumeStream, status, error, addToolApprovalResponse } = useChat({
    id,
    messages: loaded,
    transport,
    resume: true,
  })
  // What is said and decided in other pages appears here, too.
  useEffect(() => transport.follow(id, { setMessages, resumeStream }), [id, setMessages, resumeStream])
  const isBusy = status === 'streaming' || status === 'submitted'
  const waits = messages.some(({ parts }) =>
    parts.some((part) => {
      if (part.type === 'data-question') return isOpen(part.data, parts)
      return 'toolCallId' in part && part.state === 'approval-requested'
    }),
  )

  /** Sends each decision at once, because another page may make the next one. */
  async function decide(approval: string, approved: boolean): Promise<void> {
    await addToolApprovalResponse({ id: approval, approved })
    await sendMessage()
  }

  /** The files stay in the form until they are read. */
  async function say(files: FileList | null | undefined): Promise<void> {
    const sent = sendMessage(files && files.length > 0 ? { text, files: await filePartsOf(files) } : { text })
    setText('')
    if (input.current) input.current.value = ''
    await sent
  }

  return (
    <main data-status={status}>
      {messages.map((message) => (
        <article key={message.id} id={message.id} data-role={message.role}>
          {message.parts.map((part, n) => {
            if (part.type === 'text') return <p key={n}>{part.text}</p>
            if (part.type === 'file') return <FilePart key={n} part={part} />
            if (part.type === 'data-question') {
              const { data, id: key } = part
              const open = isOpen(data, message.parts)
              return <Question key={key} question={data} isOpen={open} reply={(given) => reply(id, data, given)} />
            }
            if (!('toolCallId' in part)) return null
            const name = part.type.replace(/^tool-/, '')
            return (
              <div key={n} className="call">
                {name}: {part.state}
                {part.state === 'approval-requested' && <pre>{JSON.stringify(part.input, null, 2)}</pre>}
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
          void say(input.current?.files)
        }}
      >
        <input value={text} onChange={({ target }) => setText(target.value)} aria-label="Message" />
        <input ref={input} type="file" multiple accept="application/pdf,image/*,text/*,application/json" aria-label="Files" />
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
const loaded = await transport.messages<ChatMessage>(id)
createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <Conversation id={id} loaded={loaded} />
  </StrictMode>,
)
