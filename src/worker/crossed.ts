// Rebuilds an error of another process of the worker, for its parent to throw.
import { DeclarationError } from '../agent/errors.ts'
import { ConnectError, StoreError } from '../connect/errors.ts'
import type { PawlError } from '../session/errors.ts'
import { type CrossingError, WorkerError } from './errors.ts'

const CLASSES = { ConnectError, DeclarationError, StoreError }

/** The error in the parent, with its original class. */
export function crossed({ name, code, message, cause }: CrossingError): PawlError {
  const Class = CLASSES[name as keyof typeof CLASSES] ?? WorkerError
  return new Class(code, message, { cause })
}
