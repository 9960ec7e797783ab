// A user's data converter by module paths: relative ones are meant from the working directory, where the SDK would look beside itself.
import { resolve } from 'node:path'
import type { DataConverter } from '@temporalio/common'

/** The converter with paths that mean the same wherever they are loaded from; a package's name stays a name. */
export function absoluteConverter(converter: DataConverter): DataConverter {
  const { payloadConverterPath, failureConverterPath } = converter
  return {
    ...converter,
    ...(payloadConverterPath !== undefined && { payloadConverterPath: absolute(payloadConverterPath) }),
    ...(failureConverterPath !== undefined && { failureConverterPath: absolute(failureConverterPath) }),
  }
}

const absolute = (path: string): string => (path.startsWith('.') ? resolve(path) : path)
