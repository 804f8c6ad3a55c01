// What we use of a service worker's global scope: the compiler's own description of it cannot stand beside a page's.

export interface WorkerScope {
  readonly location: Location
  readonly clients: {
    matchAll(options: { type: 'window'; includeUncontrolled: boolean }): Promise<readonly Client[]>
    claim(): Promise<void>
  }
  skipWaiting(): Promise<void>
  addEventListener(type: 'install' | 'activate', listen: (event: LifeEvent) => void): void
  addEventListener(type: 'fetch', listen: (event: FetchEvent) => void): void
}

export interface Client {
  readonly url: string
  postMessage(message: unknown, transfer: readonly Transferable[]): void
}

interface LifeEvent {
  waitUntil(done: Promise<unknown>): void
}

interface FetchEvent {
  readonly request: Request
  respondWith(response: Promise<Response>): void
}
