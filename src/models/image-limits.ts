// What providers document about the images and documents of a request. A request that exceeds a limit is refused as a whole.
import type { MediaType } from '../session/image.ts'

/** Limits of the images and documents in one request. */
export interface ImageLimits {
  /** The types that the provider accepts. */
  mediaTypes: readonly MediaType[]
  /** Base64 characters of one image. */
  maxChars: number
  /** Base64 characters of all images and documents together: a request's limit in bytes, minus room for the rest of the request. */
  maxTotalChars: number
  /** The longest side in pixels. */
  maxSide: number
  /** Images in one request. */
  maxImages: number
  /** A request with more images than `above` may have only images whose sides are at most `maxSide`. */
  many?: { above: number; maxSide: number }
  /** Whether the provider refuses `http:` URLs. */
  httpsOnly: boolean
  /** Ids of files that were uploaded to the provider have this form; absent: it accepts none. */
  fileIds?: RegExp
}

const MB = 1024 * 1024
const ALL: readonly MediaType[] = ['image/jpeg', 'image/png', 'image/gif', 'image/webp']

/** Models whose context window is at most this large have the lower limit on images. */
const SMALL_WINDOW = 200_000

/** Anthropic's limits: 5 MB of base64 and 8,000 pixels per image, 2,000 pixels above 20 images, 32 MB per request. */
export function anthropicImages(contextWindow: number | undefined): ImageLimits {
  return {
    mediaTypes: ALL,
    maxChars: 5 * MB,
    maxTotalChars: 24 * MB,
    maxSide: 8_000,
    maxImages: contextWindow === undefined || contextWindow <= SMALL_WINDOW ? 100 : 600,
    many: { above: 20, maxSide: 2_000 },
    httpsOnly: true,
    fileIds: /^file_/,
  }
}

/** OpenAI's limits: 50 MB and 500 images per request. */
const OPENAI: ImageLimits = {
  mediaTypes: ALL,
  maxChars: 20 * MB,
  maxTotalChars: 40 * MB,
  maxSide: Infinity,
  maxImages: 500,
  httpsOnly: false,
  fileIds: /^(?:file|assistant)-/,
}

/** Google's limits: no GIF, and 20 MB per request with inline data. */
const GOOGLE: ImageLimits = {
  mediaTypes: ['image/jpeg', 'image/png', 'image/webp'],
  maxChars: 14 * MB,
  maxTotalChars: 14 * MB,
  maxSide: Infinity,
  maxImages: 3_000,
  httpsOnly: false,
  fileIds: /^https:\/\/\S+\/files\//,
}

/** The limits of the provider with this name in the AI SDK, such as `openai.responses`. Unknown providers have the lowest ones. */
export function imagesOf(provider: string, contextWindow: number | undefined): ImageLimits {
  if (/anthropic|bedrock/.test(provider)) return { ...anthropicImages(contextWindow), httpsOnly: false }
  if (/^(?:openai|azure)\b/.test(provider)) return OPENAI
  if (/^(?:google|vertex)\b/.test(provider)) return GOOGLE
  const { fileIds: _, ...unknown } = OPENAI
  return { ...unknown, maxTotalChars: 14 * MB, maxImages: 100 }
}
