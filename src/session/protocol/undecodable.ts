// The payload converter's result for a value that it cannot decode.

/**
 * A value that cannot be decoded. It is a class, because no payload can decode to an instance of it. A marker member in an object could be
 * forged.
 */
export class Undecodable {
  readonly reason: string

  constructor(reason: string) {
    this.reason = reason
  }
}
