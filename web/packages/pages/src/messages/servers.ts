import { part } from './part.ts'

/** The reasons why a program cannot use a server. */
export const servers = part('servers', {
  address: '"{address}" is not the address of a server.',
  closed: 'The connection to the server was closed.',
})
