/** The server refused a join or a message, or did not answer in time. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
  /** The server's word for the cause, such as `unauthorized`; `timeout` if it did not answer. */
  readonly reason: string
  /** The whole answer of the server. */
  readonly response: unknown

  constructor(request: string, response: unknown, reason = reasonOf(response)) {
    super(`cannot ${request}: ${reason}`)
    this.reason = reason
    this.response = response
  }
}

/** The reason in an answer or event of the server. */
export function reasonOf(response: unknown): string {
  const reason = (response as { reason?: unknown } | null | undefined)?.reason
  return typeof reason === 'string' ? reason : 'unknown reason'
}
