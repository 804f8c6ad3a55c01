/** The part of the npm package `phoenix` that is used. The package has no types of its own. */
declare module 'phoenix' {
  export interface SocketOptions {
    params?: Record<string, unknown> | (() => Record<string, unknown>)
    transport?: unknown
    timeout?: number
    heartbeatIntervalMs?: number
    reconnectAfterMs?: (tries: number) => number
    rejoinAfterMs?: (tries: number) => number
    longPollFallbackMs?: number
    sessionStorage?: Pick<Storage, 'getItem' | 'setItem'>
  }

  export class Socket {
    constructor(endPoint: string, options?: SocketOptions)
    connect(): void
    disconnect(callback?: () => void, code?: number, reason?: string): void
    isConnected(): boolean
    /** Whether reconnecting waits until the page is shown. Internal to the package; a test notices when it changes. */
    get pageHidden(): boolean
    /** Sends a heartbeat and calls back with the time of its reply. `false` without a connection. */
    ping(callback: (milliseconds: number) => void): boolean
    onOpen(callback: () => void): string
    onClose(callback: (event: unknown) => void): string
    onError(callback: (error: unknown) => void): string
    channel(topic: string, params?: Record<string, unknown> | (() => Record<string, unknown>)): Channel
  }

  export class Channel {
    join(timeout?: number): Push
    leave(timeout?: number): Push
    on(event: string, callback: (payload: unknown) => void): number
    off(event: string, ref?: number): void
    onClose(callback: (reason: unknown) => void): void
    onError(callback: (reason: unknown) => void): number
    push(event: string, payload: object, timeout?: number): Push
  }

  export interface Push {
    receive(status: string, callback: (response: unknown) => void): Push
  }
}
