// `ws` exports them, and its types do not name them.
import 'ws'

declare module 'ws' {
  // biome-ignore lint/suspicious/noExplicitAny: they are internals without any description
  export const Receiver: any
  // biome-ignore lint/suspicious/noExplicitAny: they are internals without any description
  export const Sender: any
}
