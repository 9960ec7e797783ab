// Version 7 for programs that are compiled from elsewhere in the repository, where `ai` is version 6.
import { fileURLToPath } from 'node:url'

const pathOf = (name: string): string => fileURLToPath(new URL(`node_modules/${name}`, import.meta.url))

/** What the packages of a chat page are replaced with. */
export const AI_SDK_7 = { ai: pathOf('ai'), '@ai-sdk/react': pathOf('@ai-sdk/react') }
