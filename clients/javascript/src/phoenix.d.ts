/** The part of the npm package `phoenix` that this client uses. The package has no types of its own. */
declare module 'phoenix' {
  export class Socket {
    constructor(endpoint: string, options: object)
    connect(): void
    disconnect(callback?: () => void): void
    isConnected(): boolean
    onOpen(callback: () => void): string
    onClose(callback: () => void): string
    onError(callback: (error: unknown) => void): string
    channel(topic: string, params: () => object): Channel
  }

  export interface Channel {
    /** Sees every event before the listeners do. */
    onMessage: (event: string, payload: unknown, ref: unknown) => unknown
    onClose(callback: () => void): void
    onError(callback: () => void): void
    join(): Push
    leave(): Push
    push(event: string, payload: object, timeout?: number): Push
  }

  export interface Push {
    receive(status: 'ok' | 'error' | 'timeout', callback: (response: unknown) => void): Push
  }

  export class Presence {
    constructor(channel: Channel)
    onSync(callback: () => void): void
    list<Entry>(choose: (key: string, presence: { metas: Record<string, unknown>[] }) => Entry): Entry[]
  }

  export const LongPoll: unknown
}
