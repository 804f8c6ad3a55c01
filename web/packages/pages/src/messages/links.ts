import { part } from './part.ts'

/** The reasons why a program cannot open the page of a link, or share one. */
export const links = part('links', {
  elsewhere: 'This link is of the server {other}, and not of {server}.',
  long: 'This link is too long.',
  sealedLive: 'A live page cannot be private.',
})
