/** The messages that the payload of a join asks for. */
export type HistoryRequest = { after: string } | { last: number }

/** The members about the history in the reply of a join. Topics without a history have none. */
export type HistoryReply = { recovered?: boolean; position?: string | null }

/** A position: the epoch of the topic's log, and the offset in it. */
const POSITION = /^([0-9a-z]+):([0-9]+)$/

/** Which messages of a topic have arrived. */
export class History {
  /** The position that the next join sends. */
  #position: string | null = null
  /** The last message since the last join that was not recovered. */
  #delivered: string | null = null

  /** The request of the next join; `last` is the number of messages that a first join asks for. */
  request(last: number | undefined): HistoryRequest | undefined {
    if (this.#position !== null) return { after: this.#position }
    return last === undefined ? undefined : { last }
  }

  /** Notes the reply of a join. Returns whether all missed messages follow. */
  noteJoined({ recovered, position }: HistoryReply): boolean {
    if (recovered === true) return true
    this.#position = position ?? null
    this.#delivered = null
    return false
  }

  /** Notes a message. Returns false if it has arrived before. */
  noteMessage(position: string): boolean {
    if (this.#delivered !== null && !isAfter(position, this.#delivered)) return false
    this.#delivered = position
    this.#position = position
    return true
  }
}

/** The ref of a message, if it is a position. Other refs are numbers or null. */
export function positionOf(ref: unknown): string | null {
  return typeof ref === 'string' && POSITION.test(ref) ? ref : null
}

/** Whether a position comes after another. Positions of different epochs have no order, and the newer epoch arrives later. */
export function isAfter(position: string, other: string): boolean {
  const [, epoch, offset] = POSITION.exec(position) ?? []
  const [, otherEpoch, otherOffset] = POSITION.exec(other) ?? []
  return epoch !== otherEpoch || Number(offset) > Number(otherOffset)
}
