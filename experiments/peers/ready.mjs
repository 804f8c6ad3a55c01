// A server of an experiment listens on the address of its node, and says when it takes users.

export const host = process.env.LAB_ADDRESS ?? '127.0.0.1'
export const port = 4000

export function ready() {
  console.log(JSON.stringify({ event: 'ready', url: `ws://${host}:${port}` }))
}
