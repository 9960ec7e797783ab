// What the documentation of the providers' APIs says about a request, as validators: each returns the sentences with which the API would
// refuse it. They know nothing of pawl's code.

type Block = Record<string, unknown> & { type?: unknown }
type Wire = { role?: unknown; content?: unknown }

const MB = 1024 * 1024

/** Anthropic's Messages API, version 2026-10-21. */
export function anthropicProblems(body: Record<string, unknown>): string[] {
  const problems: string[] = brokenTexts(body)
  const messages = body.messages as Wire[]
  const say = (problem: string | false | undefined): void => {
    if (problem) problems.push(problem)
  }
  for (const name of ['temperature', 'top_p', 'top_k']) say(name in body && `${name}: Extra inputs are not permitted`)
  say(messages.length === 0 && 'messages: at least one message is required')
  say(messages[0]?.role !== 'user' && 'messages: first message must use the "user" role')
  const isContinued = (messages.at(-1)?.content as Block[] | undefined)?.some(({ type }) => isServerBlock(type))
  say(
    messages.at(-1)?.role !== 'user' &&
      !isContinued &&
      'This model does not support assistant message prefill. The conversation must end with a user message.',
  )
  const ids = new Set<unknown>()
  const images: { data: string; mediaType: unknown }[] = []
  const documents: Block[] = []
  let open: unknown[] = []
  for (const [at, { role, content }] of messages.entries()) {
    const blocks = content as Block[]
    const place = `messages.${at}`
    say(role === messages[at - 1]?.role && `${place}: roles must alternate`)
    say(blocks.length === 0 && `${place}: all messages must have non-empty content`)
    const results = blocks.filter(({ type }) => type === 'tool_result').map(({ tool_use_id }) => tool_use_id)
    const afterResults = blocks.slice(results.length).some(({ type }) => type === 'tool_result')
    say(open.some((id) => !results.includes(id)) && `${place}: tool_use ids were found without tool_result blocks immediately after`)
    say(results.some((id) => !open.includes(id)) && `${place}: unexpected tool_use_id found in tool_result blocks`)
    say(new Set(results).size < results.length && `${place}: each tool_use must have a single result`)
    say(afterResults && `${place}: tool_result blocks must come first`)
    say(
      role === 'assistant' &&
        /thinking/.test(String(blocks.at(-1)?.type)) &&
        `${place}: the final block in an assistant message cannot be thinking`,
    )
    open = []
    for (const [index, block] of blocks.entries()) {
      const here = `${place}.content.${index}`
      const inside = block.type === 'tool_result' && Array.isArray(block.content) ? (block.content as Block[]) : []
      for (const part of [block, ...inside]) {
        say(part.type === 'text' && String(part.text).trim() === '' && `${here}: text content blocks must contain non-whitespace text`)
        if (part.type === 'image') checkSource(part.source as Block, here)
        if (part.type === 'document') checkDocument(part, here)
      }
      say(
        role === 'assistant' &&
          !['text', 'thinking', 'redacted_thinking', 'tool_use'].includes(String(block.type)) &&
          !isServerBlock(block.type) &&
          `${here}: not in an answer`,
      )
      say(
        role === 'user' &&
          !['text', 'image', 'document', 'tool_result'].includes(String(block.type)) &&
          `${here}: not in a message of the user`,
      )
      if (block.type === 'tool_use') {
        open.push(block.id)
        say(ids.has(block.id) && `${here}: tool_use ids must be unique`)
        ids.add(block.id)
        say(!/^[a-zA-Z0-9_-]+$/.test(String(block.id)) && `${here}.id: String should match pattern '^[a-zA-Z0-9_-]+$'`)
        say(!/^[a-zA-Z0-9_-]{1,128}$/.test(String(block.name)) && `${here}.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`)
        say(!isRecord(block.input) && `${here}.input: Input should be a valid dictionary`)
      }
      if (block.type === 'tool_result') {
        say(typeof block.content === 'string' && block.content.trim() === '' && `${here}: content must be non-empty`)
        say(
          block.is_error === true &&
            inside.some(({ type }) => type !== 'text') &&
            `${here}: all content must be type text if is_error is true`,
        )
      }
      say(block.type === 'thinking' && block.signature === '' && `${here}.signature: invalid signature in thinking block`)
      say(block.type === 'redacted_thinking' && block.data === '' && `${here}.data: invalid data in redacted_thinking block`)
    }
  }
  say(open.length > 0 && 'the conversation ends in a call without a result')
  for (const problem of serverToolProblems(messages)) say(problem)
  for (const { data } of images) {
    const side = sideOf(data)
    say(side > 8_000 && 'At least one of the image dimensions exceed max allowed size: 8000 pixels')
    say(
      images.length > 20 &&
        side > 2_000 &&
        'At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels',
    )
  }
  const cited = documents.filter(({ citations }) => (citations as { enabled?: unknown } | undefined)?.enabled === true).length
  say(cited > 0 && cited < documents.length && 'citations must be enabled on all or none of the documents in a request')
  say(images.length > 100 && `Too much media: ${images.length} images > 100`)
  say(Buffer.byteLength(JSON.stringify(body)) > 32 * MB && '413 request_too_large')
  const thinking = body.thinking as { type?: unknown } | undefined
  const last = messages.findLastIndex(({ role }) => role === 'assistant')
  const isInTurn = (messages[last + 1]?.content as Block[] | undefined)?.some(({ type }) => type === 'tool_result')
  const begins = String((messages[last]?.content as Block[] | undefined)?.[0]?.type)
  say(
    thinking?.type === 'enabled' &&
      isInTurn &&
      !/thinking/.test(begins) &&
      `Expected \`thinking\` or \`redacted_thinking\`, but found \`${begins}\``,
  )
  const marked = [
    ...((body.tools as Block[]) ?? []),
    ...((body.system as Block[]) ?? []),
    ...messages.flatMap(({ content }) => content as Block[]),
  ]
  const count = marked.filter((block) => 'cache_control' in block).length + ('cache_control' in body ? 1 : 0)
  say(count > 4 && `A maximum of 4 blocks with cache_control may be provided. Found ${count}.`)
  return problems

  function checkDocument(block: Block, here: string): void {
    documents.push(block)
    const { type, data, media_type: mediaType, url, file_id: fileId } = block.source as Block
    const known = ['type', 'source', 'title', 'context', 'citations', 'cache_control']
    say(Object.keys(block).some((name) => !known.includes(name)) && `${here}: Extra inputs are not permitted`)
    for (const name of ['title', 'context']) say(block[name] === '' && `${here}.${name}: String should have at least 1 character`)
    if (type === 'base64') {
      const bytes = Buffer.from(String(data), 'base64')
      say(mediaType !== 'application/pdf' && `${here}.source.base64.media_type: Input should be 'application/pdf'`)
      say(!isFullBase64(String(data)) && `${here}: invalid base64 data`)
      say(bytes.toString('latin1', 0, 5) !== '%PDF-' && `${here}: The PDF specified was not valid.`)
      say(bytes.includes('/Encrypt') && `${here}: The PDF specified is password protected.`)
    } else if (type === 'text') {
      say(mediaType !== 'text/plain' && `${here}.source.text.media_type: Input should be 'text/plain'`)
      say(String(data).trim() === '' && `${here}: text content blocks must contain non-whitespace text`)
    } else if (type === 'url') say(!String(url).startsWith('https://') && `${here}: Only HTTPS URLs are supported`)
    else if (type === 'file') say(!/^file_[A-Za-z0-9_]+$/.test(String(fileId)) && `${here}: Invalid file id`)
    else say(`${here}.source: unknown source ${String(type)}`)
  }

  function checkSource({ type, data, media_type: mediaType, url }: Block, here: string): void {
    if (type === 'url') {
      images.push({ data: '', mediaType })
      say(!String(url).startsWith('https://') && `${here}: Only HTTPS URLs are supported`)
      return
    }
    const text = String(data)
    images.push({ data: text, mediaType })
    say(!isFullBase64(text) && `${here}: invalid base64 data`)
    say(text.length > 5 * MB && `${here}: image exceeds 5 MB maximum`)
    say(typeOf(text) === undefined && `${here}: Could not process image`)
    say(typeOf(text) !== mediaType && `${here}: Image does not match the provided media type ${String(mediaType)}`)
  }
}

const SERVER_RESULTS = [
  'web_search_tool_result',
  'web_fetch_tool_result',
  'code_execution_tool_result',
  'bash_code_execution_tool_result',
  'text_editor_code_execution_tool_result',
]

function isServerBlock(type: unknown): boolean {
  return type === 'server_tool_use' || SERVER_RESULTS.includes(String(type))
}

/**
 * Tools that Anthropic runs. A call's result follows in the same answer, or begins the next one if the API waited for results of the client's
 * tools, sent without anything else. Only a call at the end may lack its result: in an answer that is continued, or beside such tools. A
 * citation of a search result needs the result.
 */
function serverToolProblems(messages: readonly Wire[]): string[] {
  const problems: string[] = []
  const urls = new Set<unknown>()
  let hasDocument = false
  let open = new Map<unknown, string>()
  const onlyResults = (at: number) => (messages[at]?.content as Block[] | undefined)?.every(({ type }) => type === 'tool_result') === true
  for (const [at, { role, content }] of messages.entries()) {
    const blocks = content as Block[]
    if (role === 'user') {
      hasDocument ||= blocks.some(
        ({ type, content: parts }) =>
          type === 'document' || (Array.isArray(parts) && (parts as Block[]).some((part) => part.type === 'document')),
      )
      if (!onlyResults(at) && open.size > 0) problems.push(`messages.${at - 1}: ${[...open.values()].join(', ')} without its result`)
      if (!onlyResults(at)) open = new Map()
      continue
    }
    const before = new Set(open.keys())
    for (const [index, block] of blocks.entries()) {
      const here = `messages.${at}.content.${index}`
      if (block.type === 'server_tool_use') open.set(block.id, `server_tool_use ${String(block.id)}`)
      if (SERVER_RESULTS.includes(String(block.type)) && !open.delete(block.tool_use_id)) {
        problems.push(`${here}: unexpected tool_use_id found in ${String(block.type)}: it must have a server_tool_use block before it`)
      }
      if (block.type === 'web_search_tool_result' && Array.isArray(block.content))
        for (const { url } of block.content as Block[]) urls.add(url)
      hasDocument ||= block.type === 'web_fetch_tool_result'
      for (const { type, url } of (block.citations ?? []) as Block[]) {
        if (type === 'web_search_result_location' ? !urls.has(url) : !hasDocument) problems.push(`${here}: citation without its source`)
      }
    }
    const late = [...before].filter((id) => open.has(id))
    if (late.length > 0) problems.push(`messages.${at}: ${late.map(String).join(', ')} without its result`)
  }
  return problems
}

/** OpenAI's Responses API. */
export function openaiProblems(body: Record<string, unknown>): string[] {
  const problems = brokenTexts(body)
  const input = body.input as Block[]
  const calls = input.filter(({ type }) => type === 'function_call')
  const outputs = input.filter(({ type }) => type === 'function_call_output')
  for (const { call_id: id, name } of calls) {
    if (calls.filter((one) => one.call_id === id).length > 1) problems.push(`Duplicate item: ${String(id)}`)
    if (outputs.filter((one) => one.call_id === id).length !== 1) problems.push(`No tool output found for function call ${String(id)}.`)
    if (!/^[a-zA-Z0-9_-]{1,64}$/.test(String(name))) problems.push(`Invalid name: ${String(name)}`)
    if (String(id).length === 0 || String(id).length > 64) problems.push(`Invalid call_id: ${String(id)}`)
  }
  for (const [at, { call_id: id }] of input.entries()) {
    const isAnswer = outputs.includes(input[at] as Block)
    if (isAnswer && !input.slice(0, at).some((one) => one.type === 'function_call' && one.call_id === id)) {
      problems.push(`No tool call found for function call output with call_id ${String(id)}.`)
    }
  }
  if (input.length === 0) problems.push('input is empty')
  const images = input.flatMap(({ content, output }) =>
    [content, output].flatMap((parts) => (Array.isArray(parts) ? (parts as Block[]) : [])),
  )
  for (const { type, image_url: url } of images.filter((part) => part.type === 'input_image'))
    problems.push(...dataUrlProblems(type, url, ANY))
  for (const part of images.filter(({ type }) => type === 'input_file')) problems.push(...inputFileProblems(part))
  return problems
}

/** A file of the Responses API has an id, an address, or its bytes with a name. */
function inputFileProblems({ file_id: id, file_url: url, file_data: data, filename }: Block): string[] {
  if ([id, url, data].filter((one) => one !== undefined).length !== 1) return ['input_file: exactly one of file_id, file_url and file_data']
  if (id !== undefined) return /^(?:file|assistant)-/.test(String(id)) ? [] : [`Invalid file id: ${String(id)}`]
  if (url !== undefined) return /^https?:/.test(String(url)) ? [] : ['input_file: invalid URL']
  const [, base64 = ''] = /^data:application\/pdf;base64,(.*)$/s.exec(String(data)) ?? []
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.toString('latin1', 0, 5) !== '%PDF-' || bytes.includes('/Encrypt')) return ['The file could not be processed']
  return typeof filename === 'string' && filename !== '' ? [] : ['input_file: filename is required with file_data']
}

/** OpenAI's Chat Completions API: the result of a call is text. */
export function chatProblems(body: Record<string, unknown>): string[] {
  const problems = brokenTexts(body)
  for (const [at, { role, content, tool_calls: calls }] of (body.messages as Block[]).entries()) {
    const here = `messages.${at}`
    if (role === 'tool' && typeof content !== 'string') problems.push(`${here}: content of a tool message must be text`)
    if (role === 'tool' && /JVBERi0|iVBORw0/.test(String(content))) problems.push(`${here}: base64 as text has too many tokens`)
    const answers = (body.messages as Block[]).slice(at + 1, at + 1 + ((calls as Block[] | undefined)?.length ?? 0))
    if (answers.some((one) => one.role !== 'tool')) problems.push(`${here}: tool_calls must be followed by tool messages`)
    for (const part of role === 'user' && Array.isArray(content) ? (content as Block[]) : []) {
      if (part.type === 'image_url') problems.push(...dataUrlProblems(part.type, (part.image_url as Block).url, ANY))
      if (part.type === 'file') problems.push(...inputFileProblems(part.file as Block))
    }
  }
  return problems
}

/** Google's Gemini API. */
export function googleProblems(body: Record<string, unknown>): string[] {
  const problems = brokenTexts(body)
  const contents = body.contents as { role: string; parts: Block[] }[]
  if (contents.length === 0) problems.push('contents is not specified')
  if (contents[0]?.role !== 'user') problems.push('Please ensure that multiturn requests begin with the role "user"')
  if (contents.at(-1)?.role !== 'user') problems.push('Please ensure that multiturn requests end with the role "user"')
  for (const [at, { role, parts }] of contents.entries()) {
    if (parts.length === 0) problems.push(`contents.${at}.parts: must not be empty`)
    const asked = parts.filter((part) => 'functionCall' in part).length
    const answered = contents[at + 1]?.parts.filter((part) => 'functionResponse' in part).length ?? 0
    if (asked !== answered && role === 'model') {
      problems.push('the number of function response parts must equal the number of function call parts of the function call turn')
    }
    const before = contents[at - 1]?.parts.some((part) => 'functionCall' in part)
    if (parts.some((part) => 'functionResponse' in part) && !before) {
      problems.push('a function response turn must come immediately after a function call turn')
    }
    for (const part of parts) {
      if (part.text === '') problems.push(`contents.${at}: a part must have one initialized field`)
      const call = part.functionCall as { name?: unknown } | undefined
      if (call && !/^[a-zA-Z_0-9][a-zA-Z0-9_.-]{0,63}$/.test(String(call.name))) problems.push(`Invalid function name ${String(call.name)}`)
      const inline = part.inlineData as { mimeType: unknown; data: string } | undefined
      if (inline?.mimeType === 'application/pdf') {
        if (!Buffer.from(inline.data, 'base64').toString('latin1').startsWith('%PDF-')) problems.push('The document has no pages.')
      } else if (inline) problems.push(...imageProblems(inline.data, inline.mimeType, ['image/png', 'image/jpeg', 'image/webp']))
    }
  }
  if (Buffer.byteLength(JSON.stringify(body)) > 20 * MB) problems.push('Request payload size exceeds the limit: 20971520 bytes.')
  return problems
}

const ANY = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']

function dataUrlProblems(type: unknown, url: unknown, types: readonly string[]): string[] {
  const [, mediaType, data = ''] = /^data:([^;]+);base64,(.*)$/s.exec(String(url)) ?? []
  if (mediaType === undefined) return /^https?:/.test(String(url)) ? [] : [`${String(type)}: invalid URL`]
  return imageProblems(data, mediaType, types)
}

function imageProblems(data: string, mediaType: unknown, types: readonly string[]): string[] {
  if (!isFullBase64(data)) return ['invalid base64 data']
  const found = typeOf(data)
  if (found === undefined) return ['Unable to process input image']
  if (found !== mediaType) return [`The image is ${found}, and not ${String(mediaType)}`]
  return types.includes(found) ? [] : [`Unsupported MIME type: ${found}`]
}

/** JSON parsers of the providers refuse half of a surrogate pair, wherever it is. */
function brokenTexts(value: unknown): string[] {
  return /\\u[dD][89a-fA-F][0-9a-fA-F]{2}/.test(JSON.stringify(value))
    ? ['The request body is not valid JSON: no low surrogate in string']
    : []
}

function isRecord(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isFullBase64(data: string): boolean {
  return data !== '' && Buffer.from(data, 'base64').toString('base64') === data
}

function typeOf(data: string): string | undefined {
  const begin = Buffer.from(data.slice(0, 64), 'base64')
  const hex = begin.toString('hex')
  if (hex.startsWith('89504e470d0a1a0a')) return 'image/png'
  if (hex.startsWith('ffd8ff')) return 'image/jpeg'
  if (begin.toString('latin1').startsWith('GIF8')) return 'image/gif'
  return begin.toString('latin1', 8, 12) === 'WEBP' && begin.toString('latin1', 0, 4) === 'RIFF' ? 'image/webp' : undefined
}

/** The longer side of the PNGs that the tests make. */
function sideOf(data: string): number {
  if (typeOf(data) !== 'image/png') return 0
  const bytes = Buffer.from(data.slice(0, 64), 'base64')
  return Math.max(bytes.readUInt32BE(16), bytes.readUInt32BE(20))
}
