// A chat in a page: `useChat` with pawl's transport. It may be reloaded at any moment.
import { useChat } from '@ai-sdk/react'
import type { FileUIPart, UIMessage } from 'ai'
import { PawlChatTransport } from 'pawl/ui'
import { StrictMode, useEffect, useRef, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { Call, FilePart } from './parts.tsx'
import { Question, type Reply, type ToolQuestion } from './question.tsx'

type ChatMessage = UIMessage<unknown, { question: ToolQuestion }>

const query = new URLSearchParams(location.search)
const agent = query.get('agent') ?? 'support'
// With version 6 of the AI SDK: `?show=steps`.
const show = query.get('show') === 'steps' ? 'steps' : 'pieces'
const transport = new PawlChatTransport({ agent, show })

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

/** Whether the browser has a connection. The transport connects again by itself. */
function useOnline(): boolean {
  const [isOnline, setOnline] = useState(navigator.onLine)
  useEffect(() => {
    const look = (): void => setOnline(navigator.onLine)
    addEventListener('online', look)
    addEventListener('offline', look)
    return () => {
      removeEventListener('online', look)
      removeEventListener('offline', look)
    }
  }, [])
  return isOnline
}

/** Keeps the end in view, unless the reader has scrolled up. */
function useFollowedEnd(): void {
  useEffect(() => {
    const page = document.documentElement
    let isNear = true
    const look = (): void => {
      isNear = page.scrollHeight - innerHeight - scrollY < 80
    }
    const grown = new ResizeObserver(() => isNear && scrollTo({ top: page.scrollHeight }))
    addEventListener('scroll', look, { passive: true })
    grown.observe(document.body)
    return () => {
      removeEventListener('scroll', look)
      grown.disconnect()
    }
  }, [])
}

function Conversation({ id, loaded }: { id: string; loaded: ChatMessage[] }) {
  const { messages, setMessages, sendMessage, stop, regenerate, resumeStream, status, error, addToolApprovalResponse } = useChat({
    id,
    messages: loaded,
    transport,
    resume: true,
  })
  // What is said and decided in other pages appears here, too.
  useEffect(() => transport.follow(id, { setMessages, resumeStream }), [id, setMessages, resumeStream])
  useFollowedEnd()
  const isOnline = useOnline()
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

  return (
    <main data-status={status}>
      <h1>{agent}</h1>
      {!isOnline && (
        <div className="notice" role="status">
          You are offline. The conversation continues, and appears here once you are back.
        </div>
      )}
      {messages.length === 0 && <div className="empty">Say what you need. You may close this page at any time, and come back.</div>}
      {messages.map((message) => (
        <Message key={message.id} message={message} session={id} decide={decide} />
      ))}
      {status === 'submitted' && (
        <div className="thinking" role="status" aria-label={`${agent} is thinking`}>
          <span />
          <span />
          <span />
        </div>
      )}
      {error && (
        <div className="problem" role="alert">
          {error.message}
        </div>
      )}
      <Composer
        isBusy={isBusy}
        send={(text, files) => sendMessage(files.length > 0 ? { text, files } : { text })}
        // A run that waits for a decision does not stream.
        {...((isBusy || waits) && { stop: () => (isBusy ? stop() : transport.stop(id, { run: runOf(messages.at(-1)) })) })}
        {...(!isBusy && messages.length > 0 && { again: () => regenerate() })}
      />
    </main>
  )
}

/** The run of an answer. */
const runOf = (message: UIMessage | undefined): number | undefined =>
  (message?.metadata as { pawl?: { run?: number } } | undefined)?.pawl?.run

interface MessageProps {
  message: ChatMessage
  session: string
  decide(approval: string, approved: boolean): Promise<void>
}

function Message({ message: { id, role, parts }, session, decide }: MessageProps) {
  return (
    <article id={id} data-role={role} aria-label={role === 'user' ? 'You' : agent}>
      {parts.map((part, n) => {
        if (part.type === 'text')
          return (
            <p key={n} dir="auto">
              {part.text}
            </p>
          )
        if (part.type === 'file') return <FilePart key={n} part={part} />
        if (part.type === 'data-question') {
          const { data, id: key } = part
          return <Question key={key} question={data} isOpen={isOpen(data, parts)} reply={(given) => reply(session, data, given)} />
        }
        if (!('toolCallId' in part)) return null
        const tool = part.type === 'dynamic-tool' ? part.toolName : part.type.replace(/^tool-/, '')
        const { approval } = part as { approval?: { id: string; requestReason?: string } }
        return (
          <Call
            key={n}
            tool={tool}
            state={part.state}
            input={part.input}
            output={part.state === 'output-available' ? part.output : undefined}
            preliminary={part.state === 'output-available' && part.preliminary}
            errorText={part.state === 'output-error' ? part.errorText : undefined}
            reason={approval?.requestReason}
            decide={approval && ((approved) => decide(approval.id, approved))}
          />
        )
      })}
    </article>
  )
}

interface ComposerProps {
  /** A message now steers the run that is in progress. */
  isBusy: boolean
  send(text: string, files: FileUIPart[]): Promise<void>
  stop?: () => Promise<void>
  again?: () => Promise<void>
}

function Composer({ isBusy, send, stop, again }: ComposerProps) {
  const [text, setText] = useState('')
  const [names, setNames] = useState<string[]>([])
  const form = useRef<HTMLFormElement>(null)
  const input = useRef<HTMLInputElement>(null)

  /** The files stay in the form until they are read. */
  async function submit(): Promise<void> {
    const files = input.current?.files
    if (text.trim() === '' && !files?.length) return
    const sent = send(text, files ? await filePartsOf(files) : [])
    setText('')
    setNames([])
    if (input.current) input.current.value = ''
    await sent
  }

  return (
    <form
      ref={form}
      className="composer"
      onSubmit={(event) => {
        event.preventDefault()
        void submit()
      }}
    >
      <textarea
        rows={2}
        dir="auto"
        value={text}
        placeholder="Message"
        aria-label="Message"
        onChange={({ target }) => setText(target.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
          event.preventDefault()
          form.current?.requestSubmit()
        }}
      />
      <div className="buttons">
        <label className="attach">
          <span>{names.length > 0 ? names.join(', ') : 'Attach files'}</span>
          <input
            ref={input}
            type="file"
            multiple
            accept="application/pdf,image/*,text/*,application/json"
            aria-label="Files"
            onChange={({ target }) => setNames([...(target.files ?? [])].map(({ name }) => name))}
          />
        </label>
        <button type="button" disabled={!again} onClick={() => void again?.()}>
          Again
        </button>
        <button type="button" disabled={!stop} onClick={() => void stop?.()}>
          Stop
        </button>
        <button type="submit" className="primary">
          {isBusy ? 'Add' : 'Send'}
        </button>
      </div>
    </form>
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
