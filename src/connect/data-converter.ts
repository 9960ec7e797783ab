// Resolves a user's converter paths relative to the working directory; the SDK would resolve them relative to itself.
import { resolve } from 'node:path'
import type { DataConverter } from '@temporalio/common'

/** The converter with absolute paths; package names stay unchanged. */
export function absoluteConverter(converter: DataConverter): DataConverter {
  const { payloadConverterPath, failureConverterPath } = converter
  return {
    ...converter,
    ...(payloadConverterPath !== undefined && { payloadConverterPath: absolute(payloadConverterPath) }),
    ...(failureConverterPath !== undefined && { failureConverterPath: absolute(failureConverterPath) }),
  }
}

const absolute = (path: string): string => (path.startsWith('.') ? resolve(path) : path)
