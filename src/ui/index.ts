// `pawl/ui`: connects a page that uses AI SDK UI's `useChat` to pawl. Runs in browsers, and imports nothing from Node.
export { PawlChatTransport } from './transport.ts'
export type { PawlChatTransportOptions } from './transport-options.ts'
export { InvalidOption } from '../options/errors.ts'
export { ChatError } from './errors.ts'
export type { ChatPage } from './following.ts'
export type {
  FollowedMessage,
  UiMessage,
  UiMessageChunk,
  UiMetadata,
  UiPart,
  UiShow,
  UiRunState,
  UiApproval,
  UiToolPart,
} from './protocol.ts'
export type { ChatRequest, ReconnectRequest, SentMessage } from './transport.ts'
export { PawlError } from '../session/errors.ts'
