/**
 * The part of a service worker's global scope that our two workers use. TypeScript's own types for it cannot be loaded
 * together with the types of a page.
 */
export interface WorkerScope {
  readonly location: { readonly origin: string }
  readonly clients: {
    get(id: string): Promise<Client | undefined>
    matchAll(options: { type: 'window'; includeUncontrolled: boolean }): Promise<readonly Client[]>
    openWindow(url: string): Promise<Client | null>
    claim(): Promise<void>
  }
  skipWaiting(): Promise<void>
  addEventListener(type: 'install' | 'activate', listener: (event: LifecycleEvent) => void): void
  addEventListener(type: 'fetch', listener: (event: FetchEvent) => void): void
  addEventListener(type: 'message', listener: (event: CommandEvent) => void): void
  addEventListener(type: 'notificationclick', listener: (event: NoticeEvent) => void): void
}

/** A tab or frame of the worker's origin. */
export interface Client {
  readonly id: string
  /** The address with which it was loaded. It stays when the tab goes on to another page of the app. */
  readonly url: string
  postMessage(message: unknown, transfer: Transferable[]): void
  focus(): Promise<unknown>
}

export interface FetchEvent extends Event {
  readonly request: Request
  readonly clientId: string
  respondWith(response: Promise<Response>): void
  waitUntil(promise: Promise<unknown>): void
}

export interface LifecycleEvent extends Event {
  waitUntil(promise: Promise<unknown>): void
}

export interface CommandEvent extends MessageEvent<unknown> {
  waitUntil(promise: Promise<unknown>): void
}

export interface NoticeEvent extends Event {
  readonly notification: { readonly data: unknown; close(): void }
  waitUntil(promise: Promise<unknown>): void
}
