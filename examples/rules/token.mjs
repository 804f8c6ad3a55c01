// Prints a token for a user, as your backend would make one after a sign-in: node token.mjs ada
import { SignJWT } from 'jose'

const secret = new TextEncoder().encode('example secret, replace it: 0123456789')
const user = process.argv[2] ?? 'ada'
const rooms = ['rooms:*']
const token = await new SignJWT({ channels: { join: rooms, publish: rooms }, meta: { name: user } })
  .setProtectedHeader({ alg: 'HS256' })
  .setSubject(user)
  .setExpirationTime('15m')
  .sign(secret)
console.log(token)
