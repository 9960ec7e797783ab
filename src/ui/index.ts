// `pawl/ui`: connects a page that uses AI SDK UI's `useChat` to pawl. Runs in browsers, and imports nothing from Node.
export { PawlChatTransport } from './transport.ts'
export { InvalidOptionError } from '../options/errors.ts'
export { ChatError } from './errors.ts'
export type { UiMessage, UiMessageChunk } from './protocol.ts'
export { PawlError } from '../session/errors.ts'
