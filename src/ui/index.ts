// `pawl/ui`: what a page with AI SDK UI's `useChat` talks to pawl with. Runs in browsers, and imports nothing of Node.
export { PawlChatTransport, type PawlChatTransportOptions } from './transport.ts'
export { ChatError } from './errors.ts'
export type { UiMessage, UiMessageChunk, UiMetadata, UiPart, UiShow, UiStanding } from './protocol.ts'
export type { ChatRequest, ReconnectRequest, SentMessage } from './transport.ts'
export { PawlError } from '../session/errors.ts'
