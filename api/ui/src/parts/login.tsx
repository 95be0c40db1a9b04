import { useState } from 'preact/hooks';
import { attempts, logInByPassword, logInByToken, refused, tenant } from '../lib/session';

/** LogIn asks for a token, or for a user and a password. Both stay in memory. */
export function LogIn() {
  const [token, setToken] = useState('');
  const [user, setUser] = useState('');
  const [password, setPassword] = useState('');
  const [chosen, setChosen] = useState(tenant.value);
  const submit = (event: Event) => {
    event.preventDefault();
    tenant.value = chosen.trim();
    if (token) logInByToken(token.trim());
    else if (user) logInByPassword(user, password);
    attempts.value++;
  };
  return (
    <form class="login card" onSubmit={submit} aria-labelledby="login-title">
      <h1 id="login-title">Log in</h1>
      <p class="notice" role="alert">{refused.value}</p>
      <label>Token
        <input type="password" autocomplete="off" value={token} onInput={(e) => setToken(e.currentTarget.value)} />
      </label>
      <p class="quiet">or</p>
      <label>User
        <input autocomplete="username" value={user} onInput={(e) => setUser(e.currentTarget.value)} />
      </label>
      <label>Password
        <input type="password" autocomplete="current-password" value={password} onInput={(e) => setPassword(e.currentTarget.value)} />
      </label>
      <label>Tenant, if you may act for several
        <input autocomplete="off" value={chosen} onInput={(e) => setChosen(e.currentTarget.value)} />
      </label>
      <button type="submit" class="primary" disabled={!token && !user && !chosen}>Log in</button>
      <p class="quiet">The page keeps this in memory. It forgets it when you reload or close the tab.</p>
    </form>
  );
}
