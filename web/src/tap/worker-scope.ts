/** Of a service worker's world, what ours uses: the types of the page's world leave it out. */

export interface Client {
  readonly id: string
  postMessage(message: unknown, transfer: Transferable[]): void
}

export interface FetchEvent extends Event {
  readonly request: Request
  readonly clientId: string
  respondWith(response: Promise<Response>): void
  waitUntil(promise: Promise<unknown>): void
}

export interface LifeEvent extends Event {
  waitUntil(promise: Promise<unknown>): void
}

export interface CallEvent extends MessageEvent<unknown> {
  waitUntil(promise: Promise<unknown>): void
}

export interface WorkerScope {
  readonly location: { readonly origin: string }
  readonly clients: {
    get(id: string): Promise<Client | undefined>
    matchAll(options: { type: 'window'; includeUncontrolled: boolean }): Promise<readonly Client[]>
    claim(): Promise<void>
  }
  skipWaiting(): Promise<void>
  addEventListener(type: 'install' | 'activate', listener: (event: LifeEvent) => void): void
  addEventListener(type: 'fetch', listener: (event: FetchEvent) => void): void
  addEventListener(type: 'message', listener: (event: CallEvent) => void): void
}
